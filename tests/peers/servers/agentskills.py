"""Skills on agentskills-mcp-server: python agentskills.py PORT|stdio SKILLS

It refuses to start over one that it does not take.
"""
import asyncio, sys
from pathlib import Path
from agentskills_core import Skill
from agentskills_fs import LocalFileSystemSkillProvider
from agentskills_mcp_server import create_mcp_server

port, folder = sys.argv[1], Path(sys.argv[2])


def server(folders):
    skills = [Skill(path.name, LocalFileSystemSkillProvider(path.parent)) for path in folders]
    paths = {path.name: path.relative_to(folder).as_posix() for path in folders}
    return asyncio.run(create_mcp_server(skills, skill_paths=paths))


def is_taken(path) -> bool:
    try:
        return bool(server([path]))
    except Exception as e:
        print(f"refused {path}: {e}", file=sys.stderr)
        return False


http = {"transport": "streamable-http", "host": "127.0.0.1"}
way = {"transport": "stdio"} if port == "stdio" else http | {"port": int(port)}
server([file.parent for file in sorted(folder.rglob("SKILL.md")) if is_taken(file.parent)]).run(**way)
