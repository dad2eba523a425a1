"""Agents that users have, with a model of ours behind them: judged through real prompts, without an account."""
