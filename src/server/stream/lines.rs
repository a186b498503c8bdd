//! Messages as lines (base protocol §9): one message each, no line end inside, UTF-8, of bounded length.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncBufReadExt as _;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt as _;
use tokio::io::BufReader;

use super::Ending;
use super::Incoming;
use super::Inward;
use super::Outward;
use crate::server::lane::Refusal;

/// What is said of a line that is too long.
const TOO_LONG: Refusal = Refusal::Invalid("the message is over the gateway's limit on bytes");

/// Lines that come in.
pub(in crate::server) struct LinesIn<R> {
    reader: BufReader<R>,
    /// What came of the line so far.
    line: Vec<u8>,
    /// Whether the rest of the line is left out: it is too long.
    is_left_out: bool,
    most: usize,
}

/// Lines that go out.
pub(in crate::server) struct LinesOut<W>(pub(in crate::server) W);

impl<R: AsyncRead + Unpin> LinesIn<R> {
    /// Reads lines of at most `most` bytes.
    pub(in crate::server) fn new(reader: R, most: usize) -> Self {
        Self {
            reader: BufReader::new(reader),
            line: Vec::new(),
            is_left_out: false,
            most,
        }
    }

    /// What was not read as lines.
    pub(in crate::server) fn into_inner(self) -> BufReader<R> {
        self.reader
    }

    /// The next line with its end; nothing after the last. What a dropped call read is there for the next one.
    pub(in crate::server) async fn line(&mut self) -> Option<Result<Bytes, Refusal>> {
        loop {
            // Whoever cannot be read any more has left.
            let read = self.reader.fill_buf().await.unwrap_or_default();
            let (taken, is_over) = match read.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (read.len(), false),
            };
            let is_last = read.is_empty();
            if !self.is_left_out {
                self.line.extend(read.iter().take(taken));
            }
            self.reader.consume(taken);
            if self.line.len() > self.most + 1 {
                self.line = Vec::new();
                self.is_left_out = true;
            }
            if !is_over && !is_last {
                continue;
            }
            if std::mem::take(&mut self.is_left_out) {
                return Some(Err(TOO_LONG));
            }
            let line = std::mem::take(&mut self.line);
            if is_last && line.is_empty() {
                return None;
            }
            return Some(Ok(Bytes::from(line)));
        }
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> Inward for LinesIn<R> {
    async fn next(&mut self) -> Incoming {
        loop {
            match self.line().await {
                Some(Ok(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
                Some(Ok(line)) => return Incoming::Message(line),
                Some(Err(refusal)) => return Incoming::Unreadable(refusal),
                None => return Incoming::End(Ending::Done),
            }
        }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Outward for LinesOut<W> {
    const BEAT: Option<Duration> = None;

    async fn send(&mut self, pieces: Vec<Bytes>) -> Option<()> {
        for piece in pieces {
            self.0.write_all(&without_line_ends(piece)).await.ok()?;
        }
        self.0.write_all(b"\n").await.ok()?;
        self.0.flush().await.ok()
    }

    async fn beat(&mut self) -> Option<()> {
        Some(())
    }

    async fn close(&mut self, _ending: Ending) {
        // Whoever has left hears no goodbye.
        let _gone = self.0.shutdown().await;
    }
}

/// JSON text has line ends between its values alone: inside a string they are written otherwise.
fn without_line_ends(piece: Bytes) -> Bytes {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !piece.iter().any(is_end) {
        return piece;
    }
    piece
        .iter()
        .map(|byte| if is_end(byte) { b' ' } else { *byte })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(text: &[u8], most: usize) -> Vec<Result<Vec<u8>, Refusal>> {
        let mut lines = LinesIn::new(text, most);
        let mut read = Vec::new();
        while let Some(line) = lines.line().await {
            read.push(line.map(|line| line.to_vec()));
        }
        read
    }

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_left_out_when_too_long() {
        assert_eq!(read(b"", 8).await, []);
        assert_eq!(
            read(b"one\n\n  two\r\nhalf", 8).await,
            [
                Ok(b"one\n".to_vec()),
                Ok(b"\n".to_vec()),
                Ok(b"  two\r\n".to_vec()),
                Ok(b"half".to_vec())
            ]
        );
        assert_eq!(read(b"12345678\n", 8).await, [Ok(b"12345678\n".to_vec())]);
        let long = [vec![b'x'; 100_000], b"\nnext\n".to_vec()].concat();
        assert_eq!(read(&long, 8).await, [Err(TOO_LONG), Ok(b"next\n".to_vec())]);
        assert_eq!(read(&vec![b'x'; 100_000], 8).await, [Err(TOO_LONG)]);
    }

    #[test]
    fn no_line_end_leaves() {
        let piece = Bytes::from_static(b"{\n\t\"a\": \"\\n\"\r\n}");
        assert_eq!(without_line_ends(piece), Bytes::from_static(b"{ \t\"a\": \"\\n\"  }"));
        let plain = Bytes::from_static(b"{}");
        assert_eq!(without_line_ends(plain.clone()).as_ptr(), plain.as_ptr());
    }
}
