//! npm's packages, and the link by which the pages import `tokenbrook` as a stranger would.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::stamp::Inputs;
use crate::{paths, process};

const OLDEST_NODE: u32 = 20;

pub(crate) fn ready() -> Result<()> {
    check_node()?;
    let stamp = paths::at_root("node_modules/.tokenbrook-stamp");
    let inputs = Inputs::new()
        .path(&paths::at_root("package.json"))?
        .path(&paths::at_root("package-lock.json"))?
        .finish();
    if !fs::read_to_string(&stamp).is_ok_and(|last| last == inputs) {
        eprintln!("setup: npm ci");
        let mut npm = Command::new("npm");
        // Install scripts download binaries that nothing here needs.
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
        process::run(npm.current_dir(paths::root()))?;
        fs::write(&stamp, inputs)?;
    }
    link_package()
}

fn check_node() -> Result<()> {
    let version = process::output(Command::new("node").arg("--version"))
        .context("Node is missing: install Node 20 or newer with npm")?;
    let major = version
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|n| n.parse().ok());
    if major.is_none_or(|major: u32| major < OLDEST_NODE) {
        bail!("Node {version} is too old: install Node {OLDEST_NODE} or newer");
    }
    Ok(())
}

fn link_package() -> Result<()> {
    let link = paths::at_root("node_modules/tokenbrook");
    if fs::symlink_metadata(&link).is_ok() {
        return Ok(());
    }
    symlink(Path::new("../pkg"), &link).with_context(|| format!("cannot link `{}`", link.display()))
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}
