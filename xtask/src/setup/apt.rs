//! Debian's packages, where this user may install them.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::{paths, process};

/// Whether all these packages are installed.
pub(crate) fn installed(packages: &[&str]) -> bool {
    let mut query = Command::new("dpkg-query");
    query
        .args(["-W", "-f", "${db:Status-Abbrev}\n"])
        .args(packages);
    process::output(&mut query)
        .is_ok_and(|out| out.lines().count() == packages.len() && out.lines().all(is_installed))
}

fn is_installed(status: &str) -> bool {
    status.trim_end() == "ii"
}

/// Installs the packages, or says in one sentence what to install by hand.
pub(crate) fn install(packages: &[&str], what: &str) -> Result<()> {
    let names = packages.join(" ");
    if !Path::new("/etc/debian_version").exists() || paths::find_program("apt-get").is_none() {
        bail!("{what} is missing and this is not Debian: install it by hand");
    }
    if process::output(Command::new("id").arg("-u"))? != "0" {
        bail!("{what} is missing: run `sudo apt-get install --no-install-recommends {names}`");
    }
    eprintln!("setup: installing {names} with apt-get");
    process::run(apt().args(["update", "-qq"]))?;
    process::run(
        apt()
            .args(["install", "-qq", "-y", "--no-install-recommends"])
            .args(packages),
    )
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
