"""A chat with history: `python chat.py chat.toml NAME` for each process of `ordercast config new chat.toml`."""

import asyncio
import sys
from dataclasses import dataclass, field

import ordercast


@dataclass
class Chat:
    lines: list[str] = field(default_factory=list)

    def say(self, context: ordercast.Context, text: str) -> None:
        self.lines.append(f"{context.caller}: {text}")


async def show(chat: ordercast.Replicated[Chat], shown: int = 0) -> None:
    while chat.state is not None:
        while shown < len(chat.state.lines):
            print(chat.state.lines[shown], flush=True)
            shown += 1
        await chat.changed()


async def main(config: str, process: str) -> None:
    async with ordercast.open(config, process) as node:
        chat = await ordercast.Replicated(Chat()).join(node, "everyone")
        showing = asyncio.create_task(show(chat))  # what was said before, and what comes
        while text := (await asyncio.to_thread(sys.stdin.readline)).strip():
            await chat.call(Chat.say, text)
        showing.cancel()


if __name__ == "__main__":
    ordercast.run(main(*sys.argv[1:]))
