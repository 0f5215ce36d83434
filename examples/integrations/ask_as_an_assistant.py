"""What an assistant sees of a collection: `memvec mcp` started and asked by the client of the SDK.

Run it with ``python examples/integrations/ask_as_an_assistant.py``; needs ``memvec[mcp]``.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from mcp import Client, StdioServerParameters

import memvec
from memvec.evaluation import load_sample

COMMAND = ["-c", "from memvec.cli import main; main()", "mcp"]


async def ask(folder: Path) -> None:
    server = StdioServerParameters(command=sys.executable, args=[*COMMAND, str(folder)])
    async with Client(server) as client:
        print("tools:", ", ".join(tool.name for tool in (await client.list_tools()).tools))
        found = await client.call_tool("range", {"like": 697, "similarity": 0.7})
        for match in found.structured_content["matches"]:
            print(f"  {match['score']:.3f}  {match['metadata']['text'][:60]}")
        print(found.structured_content["certificate"]["text"])
        told = await client.call_tool("explain", {"like": 697, "id": 3, "similarity": 0.7})
        print(told.structured_content["reason"])


def main() -> None:
    sample = load_sample()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "synsets.mv"
        with memvec.open(folder, dim=384, similarity=0.7) as collection:
            texts = [{"text": text} for text in sample.texts]
            collection.add(sample.vectors, ids=range(len(sample)), metadata=texts)
        asyncio.run(ask(folder))


if __name__ == "__main__":
    main()
