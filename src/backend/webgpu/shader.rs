//! WGSL from parts: header, constants, common parts, kernel. The order of WGSL's module scope
//! is free, so a variant is another part with the same functions, never a preprocessor.

use std::fmt::Write as _;

/// A constant that a part names without defining it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Constant {
    /// `u32`.
    U32(u32),
    /// `f32`.
    F32(f32),
}

/// What the first lines have to ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Subgroup operations.
    pub subgroups: bool,
    /// `f16`.
    pub f16: bool,
    /// Instructions on four packed bytes.
    pub packed_dot: bool,
}

/// How a target spells what [`Needs`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// naga: knows subgroup operations without asking, and refuses the line that asks.
    Naga,
    /// Browsers, as the specification says.
    Standard,
}

impl Dialect {
    /// That of the platform this was built for.
    pub const HERE: Self = if cfg!(target_arch = "wasm32") {
        Self::Standard
    } else {
        Self::Naga
    };
}

/// Text of a shader: its entry point is `name`.
#[derive(Clone, Debug, PartialEq)]
pub struct Shader {
    /// Entry point.
    pub name: &'static str,
    /// Parts, the kernel last.
    pub parts: Vec<&'static str>,
    /// Constants of the parts.
    pub constants: Vec<(&'static str, Constant)>,
    /// Extensions of the parts.
    pub needs: Needs,
}

impl Shader {
    /// The text for a target.
    #[must_use]
    pub fn text(&self, dialect: Dialect) -> String {
        let mut text = String::new();
        if self.needs.subgroups && dialect == Dialect::Standard {
            text.push_str("enable subgroups;\n");
        }
        if self.needs.f16 {
            text.push_str("enable f16;\n");
        }
        if self.needs.packed_dot {
            text.push_str("requires packed_4x8_integer_dot_product;\n");
        }
        for (name, value) in &self.constants {
            // Writing to a string cannot fail.
            let _ = match value {
                Constant::U32(value) => writeln!(text, "const {name}: u32 = {value}u;"),
                Constant::F32(value) => writeln!(text, "const {name}: f32 = {value:?}f;"),
            };
        }
        for part in &self.parts {
            text.push('\n');
            text.push_str(part);
        }
        text
    }
}
