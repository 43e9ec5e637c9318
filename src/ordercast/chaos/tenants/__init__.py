"""What users of building blocks do under chaos: each block has its own life; nothing here judges it."""

from ordercast.chaos.tenants.holding import hold, lead
from ordercast.chaos.tenants.questions import ask
from ordercast.chaos.tenants.tenant import Life, Tenant
from ordercast.chaos.tenants.values import change_map, count
from ordercast.chaos.tenants.working import work

LIVES: dict[str, Life] = {
    "lock": hold,
    "election": lead,
    "queue": work,
    "map": change_map,
    "counter": count,
    "question": ask,
}
"""By the block that they use."""

__all__ = ["LIVES", "Tenant"]
