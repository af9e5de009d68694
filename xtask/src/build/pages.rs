//! The pages in `dist/`: one static folder that works under any sub-path.

use std::process::Command;

use anyhow::Result;

use crate::stamp::{self, Inputs};
use crate::{paths, process};

pub(crate) fn build() -> Result<()> {
    let inputs = Inputs::new()
        .path(&paths::at_root("www"))?
        .path(&paths::at_root("pkg"))?
        .path(&paths::at_root("package-lock.json"))?
        .finish();
    stamp::unless_fresh("pages", &inputs, &paths::at_root("dist/index.html"), || {
        eprintln!("build: vite");
        let mut vite = Command::new("node");
        vite.current_dir(paths::root());
        vite.args([
            "node_modules/vite/bin/vite.js",
            "build",
            "www",
            "--logLevel",
            "warn",
        ]);
        process::run(&mut vite)
    })?;
    Ok(())
}
