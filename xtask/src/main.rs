//! Automation of this repository; `cargo xtask help` lists the commands.
fn main() {}
