;;; Emacs with agent-shell, set up with the agent of EDITORS_AGENT.  -*- lexical-binding: t -*-
(dolist (plugin '("acp.el" "shell-maker" "agent-shell"))
  (add-to-list 'load-path (expand-file-name plugin (getenv "EDITORS_PLUGINS"))))
(setq make-backup-files nil
      inhibit-startup-screen t
      native-comp-jit-compilation nil
      agent-shell-show-welcome-message nil
      agent-shell-confirm-interrupt nil
      agent-shell-session-strategy (intern (getenv "EDITORS_STRATEGY")))
(fset 'yes-or-no-p 'y-or-n-p)
(require 'agent-shell)
(let ((command (append (json-parse-string (getenv "EDITORS_AGENT")) nil)))
  (agent-shell-start
   :config (agent-shell-make-agent-config
            :identifier 'my-agent
            :mode-line-name "My agent"
            :buffer-name "My agent"
            :shell-prompt "My agent> "
            :shell-prompt-regexp "My agent> "
            :client-maker (lambda (buffer)
                            (agent-shell--make-acp-client :command (car command)
                                                          :command-params (cdr command)
                                                          :context-buffer buffer)))))
