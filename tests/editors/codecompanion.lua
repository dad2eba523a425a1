-- Neovim with CodeCompanion, set up as the README says.
local plugins = vim.env.EDITORS_PLUGINS
for _, plugin in ipairs({ "plenary.nvim", "codecompanion.nvim" }) do
  vim.opt.runtimepath:prepend(plugins .. "/" .. plugin)
end
vim.opt.swapfile = false
vim.cmd("runtime! plugin/plenary.vim plugin/codecompanion.lua")
require("codecompanion").setup({
  adapters = {
    acp = {
      my_agent = function()
        return require("codecompanion.adapters").extend("goose", {
          name = "my_agent",
          formatted_name = "My agent",
          commands = { default = vim.json.decode(vim.env.EDITORS_AGENT) },
        })
      end,
    },
  },
  interactions = { chat = { adapter = "my_agent" } },
})

-- The slash commands, which are else offered by a completion plugin. Debian's Neovim needs a coroutine for them.
local function slash(name)
  return function()
    require("codecompanion.utils.async").sync(function()
      local chat = require("codecompanion").buf_get_chat(0)
      local command = require("codecompanion.interactions.chat.slash_commands.builtin." .. name)
      command.new({ Chat = chat, config = { opts = {} }, context = {} }):execute()
    end)(function() end)
  end
end
vim.api.nvim_create_user_command("Settings", slash("acp_session_options"), {})
vim.api.nvim_create_user_command("Resume", slash("resume"), {})
