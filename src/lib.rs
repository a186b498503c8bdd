//! Portcullis: a verifying, caching gateway between AI hosts and MCP servers that publish Agent Skills.

pub mod domain;
