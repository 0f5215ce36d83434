"""The tools of assistants, asked by the client of the protocol's own SDK over stdio."""

import sys
from contextlib import asynccontextmanager

import numpy as np
import pytest

pytest.importorskip("mcp", reason="of the group extras: make test-extras")

from click.testing import CliRunner
from mcp import Client, StdioServerParameters

import memvec
from memvec.cli import main
from memvec.evaluation import load_sample
from memvec.integrations.mcp import build_server

N_ITEMS = 2500
ENCODER = "memvec_test_encoder"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder of two collections, one of distances, and a module with an encoder."""
    folder = tmp_path_factory.mktemp("mcp")
    sample = load_sample()
    rows = range(N_ITEMS)
    with memvec.open(folder / "synsets.mv", dim=384, similarity=0.6) as collection:
        metadata = [{"text": sample.texts[row], "row": row} for row in rows]
        collection.add(sample.vectors[:N_ITEMS], ids=list(rows), metadata=metadata)
        collection.add(sample.vectors[697], ids="copy of whale")
        collection.seal(progress=False)
    with memvec.open(folder / "far.mv", dim=384, radius=0.8, metric="euclidean") as collection:
        collection.add(sample.vectors[:50], ids=[f"item {row}" for row in range(50)])
    (folder / "notes").mkdir()
    code = """
from memvec.evaluation import load_sample

def embed(text):
    return load_sample().vectors[int(text)]
"""
    (folder / f"{ENCODER}.py").write_text(code, encoding="utf-8")
    return folder


@asynccontextmanager
async def asking(folder, *options):
    """Start the command as an assistant does, and yield a client."""
    code = "from memvec.cli import main; main()"
    arguments = ["-c", code, "mcp", str(folder), *options]
    environment = {"PYTHONPATH": str(folder)}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment)
    async with Client(server, read_timeout_seconds=120) as client:
        yield client


async def answer(client, tool, **arguments):
    done = await client.call_tool(tool, arguments)
    assert not done.is_error, done.content
    return done.structured_content


async def refusal(client, tool, **arguments):
    done = await client.call_tool(tool, arguments)
    assert done.is_error
    return done.content[0].text


async def test_assistant_searches_over_stdio(folder):
    sample = load_sample()
    async with asking(folder, "--encoder", f"{ENCODER}:embed") as client:
        listed = (await client.list_tools()).tools
        names = ["collections", "duplicates", "explain", "range", "search"]
        assert sorted(tool.name for tool in listed) == names
        assert all(tool.description and tool.annotations.read_only_hint for tool in listed)
        described = (await answer(client, "collections"))["collections"]
        assert [(one["name"], one["n_items"]) for one in described] == [
            ("far.mv", 50),
            ("synsets.mv", N_ITEMS + 1),
        ]
        top = await answer(client, "search", collection="synsets.mv", like=697, k=3)
        assert {match["id"] for match in top["matches"][:2]} == {697, "copy of whale"}
        by_text = await answer(client, "search", collection="synsets.mv", text="697", k=3)
        by_vector = await answer(
            client, "search", collection="synsets.mv", vector=sample.vectors[697].tolist(), k=3
        )
        assert by_text["matches"] == by_vector["matches"] == top["matches"]


async def test_range_comes_with_its_certificate(folder):
    vectors = load_sample().vectors
    async with asking(folder / "synsets.mv") as client:
        found = await answer(client, "range", like=697, similarity=0.5, guarantee="exact", shown=5)
        wanted = np.count_nonzero(vectors[:N_ITEMS] @ vectors[697] >= 0.5) + 1
        assert found["n_matches"] == wanted
        assert len(found["matches"]) == 5
        assert found["matches"][2]["metadata"]["text"]
        assert found["certificate"]["level"] == "exact"
        assert found["certificate"]["text"] == "Misses nothing above 0.5."
        usual = await answer(client, "range", like=697, where={"row": {"$lt": 697}})
        assert usual["certificate"]["similarity"] == 0.6
        assert all(match["metadata"]["row"] < 697 for match in usual["matches"])
        told = await answer(client, "explain", id=3, like=697, similarity=0.9)
        assert not told["returned"]
        assert told["reason"].startswith("Not returned: its score")
        assert told["reason"] in told["details"]


async def test_duplicates_are_found(folder):
    async with Client(build_server(folder)[0]) as client:
        found = await answer(client, "duplicates", collection="synsets.mv", similarity=0.999)
        assert found["n_items"] == N_ITEMS + 1
        assert {"kept": 697, "dropped": ["copy of whale"]} in found["groups"]
        assert found["n_to_drop"] == sum(len(group["dropped"]) for group in found["groups"])
        few = await answer(client, "duplicates", collection="synsets.mv", similarity=0.8, shown=2)
        assert len(few["groups"]) == 2 < few["n_groups"]


async def test_distances_are_asked_by_cosine(folder):
    async with Client(build_server(folder)[0]) as client:
        found = await answer(client, "range", collection="far.mv", like="item 3", similarity=0.68)
        assert found["matches"][0] == {"id": "item 3", "score": 0.0, "metadata": {}}
        assert all(match["score"] <= 0.8 for match in found["matches"])


async def test_new_items_are_seen(tmp_path):
    with memvec.open(tmp_path / "new.mv", dim=2) as collection:
        server, tools = build_server(tmp_path / "new.mv")
        async with Client(server) as client:
            assert (await answer(client, "search", vector=[1.0, 0.0]))["matches"] == []
            collection.add([[1.0, 0.1]], ids=["near"])
            found = await answer(client, "search", vector=[1.0, 0.0])
            assert [match["id"] for match in found["matches"]] == ["near"]
        tools.close()


async def test_refusals_are_told_in_words(folder):
    server, tools = build_server(folder)
    async with Client(server) as client:
        told = await refusal(client, "search", like=3)
        assert "must be one of 'far.mv', 'synsets.mv'. Got None instead." in told
        told = await refusal(client, "search", collection="synsets.mv")
        assert "A query is one of 'like', 'text' and 'vector'. Got 0 of them instead." in told
        told = await refusal(client, "search", collection="synsets.mv", like=3, text="a")
        assert "Got 2 of them" in told
        told = await refusal(client, "search", collection="synsets.mv", text="a whale")
        assert "no encoder for texts" in told
        told = await refusal(client, "search", collection="synsets.mv", like="nobody")
        assert "nobody" in told
        told = await refusal(client, "search", collection="synsets.mv", vector=[1.0])
        assert "must be of dimension 384. Got dimension 1 instead." in told
        told = await refusal(
            client, "range", collection="synsets.mv", like=3, where={"a": {"$x": 1}}
        )
        assert "$x" in told
    tools.close()


def test_command_names_what_cannot_be_served(tmp_path):
    done = CliRunner().invoke(main, ["mcp", str(tmp_path)])
    assert done.exit_code == 1
    assert "is not a collection, and contains none." in done.output
    memvec.open(tmp_path / "a.mv", dim=2).close()
    for encoder in ("nothing:here", "os:nothing", ":"):
        done = CliRunner().invoke(main, ["mcp", str(tmp_path), "--encoder", encoder])
        assert done.exit_code == 2
        assert "Invalid value for '--encoder': it must be module:function" in done.output
