//! Portcullis: a verifying, caching gateway between AI hosts and MCP servers that publish Agent Skills.

pub mod admin;
pub mod clock;
pub mod config;
pub mod domain;
pub mod gateway;
pub mod server;
pub mod shutdown;
pub mod store;
pub mod telemetry;
pub mod tls;
pub mod upstream;
