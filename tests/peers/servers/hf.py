"""Hugging Face's server: python hf.py PORT SKILLS

It wants a manifest beside its skills, which this writes; like the real one, it has digests and no sizes. One description
that is too long, and it would publish nothing.
"""
import hashlib, json, os, shutil, sys, tempfile
from pathlib import Path
from urllib.parse import quote
import yaml

port, source, copy = sys.argv[1], Path(sys.argv[2]), Path(tempfile.mkdtemp(dir=Path.home()))


def entry(folder: Path) -> dict:
    root = "skill://" + quote(folder.relative_to(copy).as_posix())
    uri = lambda file: f"{root}/{quote(file.relative_to(folder).as_posix())}"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        "uri": f"{root}/SKILL.md",
        "frontmatter": yaml.safe_load((folder / "SKILL.md").read_text().split("---")[1]),
        "resources": [{"uri": uri(file), "digest": "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()} for file in files],
    }


shutil.copytree(source, copy, dirs_exist_ok=True)
entries = [entry(file.parent) for file in sorted(copy.rglob("SKILL.md"))]
skills = [entry for entry in entries if len(entry["frontmatter"]["description"]) <= 1024]
(copy / "skills.json").write_text(json.dumps({"version": 1, "skills": skills}))
server = Path(__file__).parent.parent / "node_modules/.bin/hf-mcp-server-http"
os.environ.update(HF_SKILLS_DIR=str(copy), TRANSPORT="streamableHttp")
os.execvp("node", ["node", str(server.resolve()), "--port", port])
