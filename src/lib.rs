//! Portcullis: a verifying, caching gateway between AI hosts and MCP servers that publish Agent Skills.
//!
//! In reading order:
//!
//! 1. [`domain`]: what is true about skills, and the one place that says what may be served;
//! 2. [`store`]: what is durable;
//! 3. [`upstream`]: asking origins;
//! 4. [`gateway`]: the use cases, where those three meet;
//! 5. [`server`]: the doors for hosts, and the skills lane behind them;
//! 6. [`admin`]: health, and commands over a socket;
//! 7. [`cli`]: the command line, and [`serve`], [`stdio`] and [`witness`], which wire everything.
//!
//! [`config`], [`tls`], [`clock`], [`shutdown`] and [`telemetry`] are leaves that all but `domain` may use.

pub mod admin;
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod gateway;
mod serve;
pub mod server;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod upstream;

pub use serve::serve;
pub use serve::stdio;
pub use serve::witness;
