//! What fuzz targets reach of streams of messages; no other build has it.
//!
//! Imports `stream`.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::AsyncReadExt as _;
use tokio_util::io::StreamReader;

use super::Doors;
use super::sessions::Owner;
use super::stream::Speaker;
use super::stream::lines::LinesIn;
use super::stream::lines::LinesOut;
use super::stream::serve;
use crate::gateway::Caller;
use crate::gateway::View;

/// Bytes that wait to be read by the host.
const PIPE: usize = 64 * 1024;

/// The lines that a host says in `chunks`; nothing in the place of one that is longer than `most` bytes and its end.
pub async fn lines(chunks: Vec<Bytes>, most: usize) -> Vec<Option<Bytes>> {
    let chunks = chunks.into_iter().map(Ok::<_, std::io::Error>);
    let mut lines = LinesIn::new(StreamReader::new(futures_util::stream::iter(chunks)), most);
    let mut read = Vec::new();
    while let Some(line) = lines.line().await {
        read.push(line.ok());
    }
    read
}

/// Everything that a host is told that says this, then leaves.
pub async fn answers(doors: &Doors, said: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let shared = Arc::clone(&doors.0);
    let speaker = Speaker {
        owner: Owner {
            caller: Caller::at(Ipv4Addr::LOCALHOST.into()),
            view: View::Merged,
        },
        may_ask: Box::new(|| true),
    };
    let (mut host, ours) = tokio::io::duplex(PIPE);
    let lines = LinesIn::new(std::io::Cursor::new(said), shared.gateway.limits().request_bytes);
    let mut heard = Vec::new();
    let served = async { drop(serve(shared, speaker, lines, LinesOut(ours)).await) };
    let (read, ()) = tokio::join!(host.read_to_end(&mut heard), served);
    read.map(|_| heard)
}
