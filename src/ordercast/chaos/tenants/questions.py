"""Who asks the group, and who answers."""

from __future__ import annotations

from ordercast.chaos.tenants.tenant import NO_ANSWER, PATIENCE_SECONDS, Tenant
from ordercast.node.asking import Wait

RATE_SHARE = 0.05
"""Of the rate of a process: each question has the answers of all members."""

WAITS: tuple[Wait, ...] = ("first", "majority", "all")


async def ask(tenant: Tenant) -> None:
    """Ask, each question another one; how many members have answered it, and how many were to."""
    shared, random = tenant.shared, tenant.random("question")
    shared.on_question(lambda question: b"%s of %s" % (question, tenant.work.process.encode()))
    members = tenant.members
    needed = {"first": 1, "majority": members // 2 + 1, "all": members}
    while await tenant.pause(random, RATE_SHARE * tenant.work.rate):
        call, wanted = tenant.next_number(), random.choice(WAITS)
        question = f"{call} of {tenant.work.process}.{tenant.work.start}".encode()
        try:
            answers = await shared.ask(question, wait=wanted, timeout=PATIENCE_SECONDS)
        except NO_ANSWER:
            await tenant.rest()
            continue
        fitting = sum(answer == b"%s of %s" % (question, name.encode()) for name, answer in answers.items())
        tenant.write("question", "answered" if fitting == len(answers) else "mistaken", fitting, needed[wanted])
