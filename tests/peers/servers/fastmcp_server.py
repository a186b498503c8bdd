"""Skills on FastMCP, beside a tool and a resource: python fastmcp_server.py PORT|stdio SKILLS

From 4.2 on by its catalog of skills, before that by its folder of skills with the extension.
"""
import sys
from pathlib import Path
from fastmcp import FastMCP

port, folder = sys.argv[1], Path(sys.argv[2])
mcp = FastMCP("fastmcp")


@mcp.tool
def ping() -> str:
    """Answers pong"""
    return "pong"


@mcp.resource("note://here/note")
def note() -> str:
    return "A note."


def catalog(provider, skill):
    """All skills that it takes; those that it refuses are left out."""
    found = {}
    for file in sorted(folder.rglob("SKILL.md")):
        try:
            one = {file.parent.relative_to(folder).as_posix(): skill.from_directory(file.parent)}
            provider(one)
            found |= one
        except Exception as e:
            print(f"refused {file}: {e}", file=sys.stderr)
    return provider(found)


try:
    from fastmcp.skills.provider import SkillCatalogProvider
except ImportError:
    from fastmcp.server.providers.skills import SkillsDirectoryProvider
    from fastmcp.skills.extension import SkillsExtension

    provider = SkillsDirectoryProvider(roots=folder, experimental_skills=True)
    mcp.add_provider(provider)
    mcp.add_extension(SkillsExtension(providers=[provider]))
else:
    from fastmcp.skills import Skill

    mcp.add_provider(catalog(SkillCatalogProvider, Skill))
way = {"transport": "stdio"} if port == "stdio" else {"transport": "http", "host": "127.0.0.1", "port": int(port)}
mcp.run(show_banner=False, **way)
