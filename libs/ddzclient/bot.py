"""The bot policy, for players of one's own: the same that acts for a trustee seat (doudizhu.bot)."""

from doudizhu.bot import choose

__all__ = ["choose"]
