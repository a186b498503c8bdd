//! Towards operators: health on the second listener, decisions over a socket in the data folder.
//!
//! Imports `domain` and `gateway`. The TCP listener answers `/healthz`, `/readyz` and the log for auditors, and nothing else until
//! a sign-in is configured; commands come over `admin.sock` alone, where the kernel names the caller: the actor is the peer's uid.
//! Outcomes become answers in `failure` and nowhere else. Start reading at [`Command`].

mod audit;
mod client;
mod command;
mod failure;
mod health;
mod lines;
mod socket;
mod tiles;
mod token;
mod witness;

pub use audit::Audit;
pub use audit::Proven;
pub use client::Client;
pub use client::Hear;
pub use command::Accepted;
pub use command::Checked;
pub use command::Command;
pub use command::Lifted;
pub use command::Look;
pub use command::Removed;
pub use failure::Failure;
pub use failure::Fault;
pub use health::router as health_router;
pub use lines::Heard;
pub use lines::Progress;
pub use socket::Error as SocketError;
pub use socket::bind as bind_socket;
pub use socket::serve as serve_socket;
pub use tiles::router as log_router;
pub use token::NewToken;
pub use token::TokenAct;
pub use token::TokensRevoked;
pub use witness::router as witness_router;
