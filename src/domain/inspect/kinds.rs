//! What a file is: by its name, and by the bytes that it begins with.

use std::borrow::Cow;

use crate::domain::uri::SKILL_FILE;
use crate::domain::uri::decoded;

/// What a file's name says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// Markdown.
    Markdown,
    /// A page in HTML.
    Html,
    /// Something that an interpreter runs.
    Script,
    /// Any other text.
    Text,
    /// A drawing in SVG.
    Drawing,
    /// An image of pixels.
    Image,
    /// A font, a sound, a film.
    Media,
    /// A document that is no text: PDF, office formats.
    Document,
    /// A compiled program or library.
    Program,
    /// Code compiled for an interpreter.
    Compiled,
    /// An archive.
    Archive,
    /// Nothing that is known here.
    Other,
}

/// What a file's first bytes say that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Magic {
    /// A compiled program: its format.
    Program(&'static str),
    /// Code compiled for an interpreter: which.
    Compiled(&'static str),
    /// An archive: its format.
    Archive(&'static str),
    /// An image of pixels.
    Image,
    /// A PDF, or an office document of the old kind.
    Document(&'static str),
    /// A text that names its interpreter.
    Script,
}

impl Named {
    /// What the name at the end of `path` says.
    pub(super) fn of(path: &str) -> Self {
        let path = decoded(path);
        let name = path.rsplit('/').next().unwrap_or_default();
        if name == SKILL_FILE {
            return Self::Markdown;
        }
        let lower = name.to_ascii_lowercase();
        let known = |names: &&str| names.split(' ').any(|known| known == lower);
        match lower.rsplit_once('.') {
            Some((_, extension)) => Self::of_extension(extension),
            None if ["makefile", "dockerfile", "justfile", "rakefile"].iter().any(known) => Self::Script,
            None if ["readme", "license", "licence", "notice", "copying", "authors"]
                .iter()
                .any(known) =>
            {
                Self::Text
            }
            None => Self::Other,
        }
    }

    fn of_extension(extension: &str) -> Self {
        let row = EXTENSIONS
            .iter()
            .find(|(extensions, _)| extensions.split(' ').any(|known| known == extension));
        row.map_or(Self::Other, |&(_, named)| named)
    }

    /// Whether the name says that the file is a text.
    pub(super) fn is_text(self) -> bool {
        match self {
            Self::Markdown | Self::Html | Self::Script | Self::Text | Self::Drawing => true,
            Self::Image
            | Self::Media
            | Self::Document
            | Self::Program
            | Self::Compiled
            | Self::Archive
            | Self::Other => false,
        }
    }

    /// Whether a file of this name that begins as `magic` is something else than it says.
    pub(super) fn hides(self, magic: Magic) -> bool {
        match magic {
            Magic::Program(_) | Magic::Compiled(_) | Magic::Archive(_) => match self {
                Self::Markdown | Self::Html | Self::Script | Self::Text | Self::Drawing | Self::Image | Self::Media => {
                    true
                }
                Self::Document | Self::Compiled => matches!(magic, Magic::Program(_)),
                Self::Program | Self::Archive | Self::Other => false,
            },
            Magic::Script => matches!(
                self,
                Self::Image | Self::Media | Self::Drawing | Self::Archive | Self::Document
            ),
            Magic::Image | Magic::Document(_) => matches!(
                self,
                Self::Markdown | Self::Html | Self::Script | Self::Text | Self::Archive
            ),
        }
    }
}

/// What extensions say; the first row that has one holds.
const EXTENSIONS: &[(&str, Named)] = &[
    ("md markdown mdx mdc", Named::Markdown),
    ("html htm xhtml", Named::Html),
    (
        "sh bash zsh fish ksh command py pyw js mjs cjs ts mts cts jsx tsx rb pl pm php lua tcl r ps1 psm1 psd1 bat \
         cmd vbs vbe wsf hta applescript scpt groovy gradle mk awk sed jl ipynb sql reg desktop service plist",
        Named::Script,
    ),
    (
        "txt text rst adoc org tex csv tsv json jsonl ndjson json5 jsonc yaml yml toml ini cfg conf env properties xml \
         xsd xsl xslt css scss less rs go c h cc cpp hpp java kt swift cs scala dart proto graphql tf lock log diff \
         patch tmpl template j2 jinja hbs ejs vue svelte bib srt vtt",
        Named::Text,
    ),
    ("svg", Named::Drawing),
    ("png jpg jpeg gif webp bmp ico tif tiff avif heic", Named::Image),
    (
        "ttf otf woff woff2 eot mp3 wav ogg flac m4a mp4 mov webm avi",
        Named::Media,
    ),
    (
        "pdf doc xls ppt docx xlsx pptx docm xlsm pptm dotx dotm xltx xltm potx potm odt ods odp epub rtf pages \
         numbers key",
        Named::Document,
    ),
    (
        "exe dll so dylib com scr msi sys efi elf pyd node o a lib lnk appimage bundle ko",
        Named::Program,
    ),
    ("pyc pyo class dex wasm", Named::Compiled),
    (
        "zip tar gz tgz bz2 tbz2 xz txz zst 7z rar jar war ear whl egg vsix crx xpi apk ipa deb rpm dmg iso cab nupkg \
         gem crate asar skill mcpb dxt pkl pickle joblib",
        Named::Archive,
    ),
];

impl Magic {
    /// The format's name.
    pub(super) fn format(self) -> &'static str {
        match self {
            Self::Program(format) | Self::Compiled(format) | Self::Archive(format) | Self::Document(format) => format,
            Self::Image => "image",
            Self::Script => "script",
        }
    }

    /// What `bytes` begin as, if they begin as something that is known here.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let begun = |(head, _): &&(&[u8], Self)| bytes.starts_with(head);
        if let Some((_, magic)) = HEADS.iter().find(begun) {
            return Some(*magic);
        }
        if bytes.starts_with(b"BZh") && bytes.get(4..10) == Some(b"1AY&SY") {
            return Some(Self::Archive("bzip2"));
        }
        if bytes.get(257..262) == Some(b"ustar") {
            return Some(Self::Archive("tar"));
        }
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Some(Self::Image);
        }
        if is_windows_program(bytes) {
            return Some(Self::Program("Windows"));
        }
        let interpreter = bytes.strip_prefix(b"#!").map(|rest| rest.trim_ascii_start());
        // `#![feature]` is Rust's.
        interpreter.filter(|rest| rest.starts_with(b"/")).map(|_| Self::Script)
    }
}

/// What in a document runs where it is opened: the name of its part.
pub(super) fn action(document: &[u8]) -> Option<&'static str> {
    let has = |name: &&&str| document.windows(name.len()).any(|window| window == name.as_bytes());
    ACTIONS.iter().find(has).copied()
}

/// Names of such parts: of macros in office documents, which archives tell openly, and of actions in a PDF.
const ACTIONS: &[&str] = &[
    "vbaProject.bin",
    "VBA_PROJECT",
    "/JavaScript",
    "/Launch",
    "/EmbeddedFile",
];

/// Whether `bytes` are a program for Windows, and not a text that begins with its two letters.
fn is_windows_program(bytes: &[u8]) -> bool {
    let header = || {
        let at = bytes.get(0x3c..0x40)?.first_chunk().map(|at| u32::from_le_bytes(*at))? as usize;
        bytes.get(at..at.checked_add(4)?)
    };
    bytes.starts_with(b"MZ") && header() == Some(b"PE\0\0")
}

/// Beginnings of files.
const HEADS: &[(&[u8], Magic)] = &[
    (b"\x7fELF", Magic::Program("ELF")),
    (b"\xfe\xed\xfa\xce", Magic::Program("Mach-O")),
    (b"\xfe\xed\xfa\xcf", Magic::Program("Mach-O")),
    (b"\xce\xfa\xed\xfe", Magic::Program("Mach-O")),
    (b"\xcf\xfa\xed\xfe", Magic::Program("Mach-O")),
    (b"\xca\xfe\xba\xbe\0\0\0\x01", Magic::Program("Mach-O")),
    (b"\xca\xfe\xba\xbe\0\0\0\x02", Magic::Program("Mach-O")),
    (b"\xca\xfe\xba\xbe", Magic::Compiled("Java")),
    (b"\0asm", Magic::Compiled("WebAssembly")),
    (b"dex\n03", Magic::Compiled("Dalvik")),
    (b"L\0\0\0\x01\x14\x02\0", Magic::Program("Windows shortcut")),
    (b"PK\x03\x04", Magic::Archive("zip")),
    (b"PK\x05\x06", Magic::Archive("zip")),
    (b"\x1f\x8b", Magic::Archive("gzip")),
    (b"\xfd7zXZ\0", Magic::Archive("xz")),
    (b"\x28\xb5\x2f\xfd", Magic::Archive("zstd")),
    (b"7z\xbc\xaf\x27\x1c", Magic::Archive("7z")),
    (b"Rar!\x1a\x07", Magic::Archive("rar")),
    (b"!<arch>\n", Magic::Archive("ar")),
    (b"MSCF\0\0\0\0", Magic::Archive("cab")),
    (b"\x89PNG\r\n\x1a\n", Magic::Image),
    (b"\xff\xd8\xff", Magic::Image),
    (b"GIF87a", Magic::Image),
    (b"GIF89a", Magic::Image),
    (b"%PDF-", Magic::Document("PDF")),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Magic::Document("office document")),
];

/// How a text was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// As UTF-8, all of it.
    Utf8,
    /// As UTF-16, which it says itself.
    Utf16,
    /// As something else, in part at least.
    Otherwise,
}

/// `bytes` as a text, if their name or they themselves say that they are one; without a byte-order mark.
pub(super) fn decode(named: Named, bytes: &[u8]) -> Option<(Cow<'_, str>, Written)> {
    if let [0xff, 0xfe, rest @ ..] | [0xfe, 0xff, rest @ ..] = bytes
        && (named.is_text() || named == Named::Other)
    {
        return Some((
            Cow::Owned(from_utf16(rest, bytes.first() == Some(&0xff))),
            Written::Utf16,
        ));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match str::from_utf8(bytes) {
        Ok(text) if named.is_text() || !bytes.contains(&0) => Some((Cow::Borrowed(text), Written::Utf8)),
        Ok(_) => None,
        Err(_) if named.is_text() => Some((String::from_utf8_lossy(bytes), Written::Otherwise)),
        Err(_) => None,
    }
}

/// `bytes` as UTF-16, a replacement character for each unit that is none of a pair.
fn from_utf16(bytes: &[u8], little_endian: bool) -> String {
    let units = bytes.chunks_exact(2).map(|unit| match *unit {
        [first, second] if little_endian => u16::from_le_bytes([first, second]),
        [first, second] => u16::from_be_bytes([first, second]),
        _ => 0,
    });
    char::decode_utf16(units)
        .map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}
