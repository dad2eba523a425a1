-- Neovim with agentic.nvim. The agent takes the place of one that it knows, and that shows what will be changed by content.
vim.opt.runtimepath:prepend(vim.env.EDITORS_PLUGINS .. "/agentic.nvim")
vim.opt.swapfile = false
vim.g.mapleader, vim.g.maplocalleader = " ", " "
local command = vim.json.decode(vim.env.EDITORS_AGENT)
local arguments = vim.list_slice(command, 2)
require("agentic").setup({
  provider = "gemini-acp",
  acp_providers = { ["gemini-acp"] = { name = "My agent", command = command[1], args = arguments } },
})
vim.keymap.set("n", "<leader>a", function() require("agentic").open() end)
vim.keymap.set("n", "<leader>x", function() require("agentic").stop_generation() end)
vim.keymap.set("n", "<leader>r", function() require("agentic").restore_session() end)
