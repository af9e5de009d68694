//! Where things lie: the checkout and the user's cache.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the checkout that this program was built from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// A path below the root of the checkout.
pub(crate) fn at_root(path: &str) -> PathBuf {
    root().join(path)
}

/// The user's cache directory for this project: shared by all clones on a machine.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match env::var_os("XDG_CACHE_HOME") {
        Some(dir) if Path::new(&dir).is_absolute() => PathBuf::from(dir),
        _ => PathBuf::from(env::var_os("HOME").context("HOME is not set: no cache directory")?)
            .join(".cache"),
    };
    Ok(base.join("tokenbrook"))
}

/// The first program of that name in PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A folder beside `target` on the same disk, removed when dropped: what a step
/// makes there is renamed into place only when it is complete.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn beside(target: &Path) -> Result<Self> {
        let parent = target.parent().context("no parent folder")?;
        let dir = parent.join(format!(".making-{}", std::process::id()));
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create `{}`", dir.display()))?;
        Ok(Self(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing depends on it: a leftover folder only takes space.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
