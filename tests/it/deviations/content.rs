//! Files as real servers send them: text or blob at whim, with types that are wrong, and sometimes with other bytes.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;
use serde_json::json;

use super::served;
use crate::support::disk;
use crate::support::gateway::Gateway;
use crate::support::origin::Fault;
use crate::support::origin::Origin;
use crate::support::skill::Skill;

const MEDIA: &str = "skill://media/SKILL.md";

/// The beginning of every PNG: bytes that are no UTF-8.
const PNG: [u8; 16] = *b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

/// The one `contents` item that a host was given.
async fn content(gateway: &Gateway, path: &str) -> Value {
    let answer = gateway.host().read(&format!("skill://acme/media/{path}")).await;
    answer.result()["contents"][0].clone()
}

#[tokio::test]
async fn text_or_blob_comes_as_it_was_sent_and_its_type_decides_nothing() {
    // deviation 17; case H2, case H5.
    let skill = Skill::at(MEDIA)
        .blob("data.json", *b"{}")
        .text("nul.txt", "a\0b")
        .blob("nul.bin", *b"b\0a")
        .blob("typed.md", *b"# Typed")
        .text("untyped.zzz", "x")
        .text("typed-binary.txt", "plain")
        .blob("logo.png", PNG);
    let (origin, gateway) = served([skill]).await;
    origin.rewrite(|method, result| {
        let Some(content) = result.pointer_mut("/contents/0").filter(|_| method == "resources/read") else {
            return;
        };
        let kind = match content["uri"].as_str().unwrap().rsplit('/').next().unwrap() {
            "typed.md" => json!("text/markdown"),
            "typed-binary.txt" => json!("application/octet-stream"),
            "logo.png" => json!("image/png"),
            "untyped.zzz" => Value::Null,
            _ => return,
        };
        content["mimeType"] = kind;
        if content["mimeType"].is_null() {
            content.as_object_mut().unwrap().remove("mimeType");
        }
    });
    for (path, form, bytes, kind) in [
        ("data.json", "blob", json!("e30="), None),
        ("nul.txt", "text", json!("a\0b"), Some("text/markdown")),
        ("nul.bin", "blob", json!("YgBh"), None),
        ("typed.md", "blob", json!("IyBUeXBlZA=="), Some("text/markdown")),
        ("untyped.zzz", "text", json!("x"), None),
        (
            "typed-binary.txt",
            "text",
            json!("plain"),
            Some("application/octet-stream"),
        ),
        ("logo.png", "blob", json!("iVBORw0KGgoAAAANSUhEUg=="), Some("image/png")),
    ] {
        let content = content(&gateway, path).await;
        assert_eq!(content[form], bytes, "{path}");
        let other = if form == "text" { "blob" } else { "text" };
        assert!(content.get(other).is_none(), "{path}: {content}");
        assert_eq!(content.get("mimeType").and_then(Value::as_str), kind, "{path}");
    }
    gateway.finish().await;
}

#[tokio::test]
async fn binary_sent_as_text_is_other_bytes_and_the_refusal_says_how_many() {
    // deviation 17: olaservo puts U+FFFD where bytes are no UTF-8; case H4.
    let (origin, gateway) = served([Skill::at(MEDIA).text("logo.png", "")]).await;
    origin.change_file(MEDIA, "logo.png", "");
    origin.change(MEDIA, |skill| skill.set_file("logo.png", &PNG));
    gateway.skill_is("acme/media", "changed").await;
    gateway.approve("acme/media").await;
    let answer = gateway.host().read("skill://acme/media/logo.png").await;
    assert_eq!(answer.refusal(-32603)["dev.portcullis/reason"], "mismatch");
    assert!(
        answer
            .text
            .contains("skill://media/logo.png has 18 bytes where its manifest says 16"),
        "{}",
        answer.text
    );
    // case L3: what failed is kept beside what was expected, for whoever looks into it.
    let notes = disk::files(&gateway.data().join("quarantine"));
    let note = notes
        .iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .find(|note| note.contains("logo.png"))
        .unwrap_or_else(|| panic!("a note in {notes:?}"));
    for word in ["acme", "sha256:", "has 18 bytes where its manifest says 16"] {
        assert!(note.contains(word), "{word} in {note}");
    }
    assert!(
        gateway.stderr().contains("asking for the entry again"),
        "a refresh was tried"
    );
    gateway.finish().await;
}

#[tokio::test]
async fn base64_is_read_in_both_alphabets_and_sent_in_the_standard_one() {
    // case H3: the digest is the judge.
    let raw = [0xfb, 0xff, 0xbe, 0x00, 0x0d, 0x0a];
    let (origin, gateway) = served([Skill::at(MEDIA).blob("raw.bin", raw)]).await;
    origin.rewrite(move |method, result| {
        if method == "resources/read" {
            result["contents"][0]["blob"] = json!(BASE64_URL_SAFE_NO_PAD.encode(raw));
        }
    });
    assert_eq!(content(&gateway, "raw.bin").await["blob"], "+/++AA0K");
    gateway.finish().await;
}

#[tokio::test]
async fn an_empty_file_is_a_file_and_what_no_digest_covers_is_not_relayed() {
    // deviation 19; of case A10: what came beside the bytes was not verified.
    let skill = |name: &str| Skill::at(&format!("skill://{name}/SKILL.md"));
    let (origin, gateway) = served([skill("text").text("empty", ""), skill("blob").blob("empty", *b"")]).await;
    origin.rewrite(|method, result| {
        if method == "resources/read" {
            result["contents"][0]["_meta"] = json!({ "io.agentskills/publication": "unsigned words" });
            result["_meta"] = json!({ "io.agentskills/catalog": "unsigned words" });
        }
    });
    for form in ["text", "blob"] {
        let answer = gateway.host().read(&format!("skill://acme/{form}/empty")).await;
        assert_eq!(answer.result()["contents"][0][form], "");
        assert!(!answer.text.contains("unsigned words"), "{}", answer.text);
    }
    gateway.finish().await;
}

#[tokio::test]
async fn a_server_that_says_that_a_file_changed_before_its_entry_is_asked_again_later() {
    // deviation 20: the TypeScript server until it is reloaded.
    let origin = Origin::with([Skill::at(MEDIA).text("a.md", "a")]);
    let gateway = Gateway::of(&origin).await;
    let set = gateway.approve("acme/media").await;
    let said = r#"{"jsonrpc":"2.0","id":{id},"error":{"code":-32603,"message":"secret-path changed since the skills catalog was loaded"}}"#;
    origin.break_method("resources/read", Fault::Whole(200, "application/json", said));
    let host = gateway.host();
    let answer = host.read("skill://acme/media/a.md").await;
    assert_eq!(answer.refusal(-32603)["dev.portcullis/reason"], "origin-fault");
    assert!(
        !answer.text.contains("secret-path"),
        "no word of the origin's: {}",
        answer.text
    );
    assert_eq!(
        gateway.skill_is("acme/media", "approved").await["served_set"],
        set.as_str()
    );
    origin.mend();
    assert_eq!(host.read("skill://acme/media/a.md").await.bytes(), b"a");
    gateway.finish().await;
}
