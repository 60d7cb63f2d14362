// SPDX-License-Identifier: MIT OR Apache-2.0
//! Object files: the function is all that is taken out of them.

use object::{
    elf, read::elf::ElfFile64, Endianness, Object as _, ObjectSection, ObjectSymbol, SectionFlags,
    SymbolKind,
};

use crate::{
    instruction::{Instruction, BYTES},
    rules, Kind, Problem, INSTRUCTIONS_MAX, OBJECT_BYTES_MAX,
};

/// A function that keeps the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub(crate) kind: Kind,
    pub(crate) code: Vec<Instruction>,
}

const TEXT: &str = ".text";
const KINDS: [Kind; 2] = [Kind::Keys, Kind::Pick];

impl Object {
    /// Takes the function out of an object file.
    ///
    /// # Errors
    /// The first rule that the object breaks.
    pub fn read(bytes: &[u8]) -> Result<Self, Problem> {
        if bytes.len() > OBJECT_BYTES_MAX {
            return Err(Problem::TooLarge(bytes.len()));
        }
        let no_object = |error: object::Error| Problem::NoObject(error.to_string());
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(no_object)?;
        let is_bpf = file.architecture() == object::Architecture::Bpf;
        if !is_bpf || !file.is_little_endian() || file.kind() != object::ObjectKind::Relocatable {
            return Err(Problem::NoObject(
                "it is for another machine, or linked already".to_owned(),
            ));
        }
        check_sections(&file)?;
        let (kind, address, bytes) = find(&file)?;
        let text = file.section_by_name(TEXT).ok_or(Problem::NoFunction)?;
        let all = text.data().map_err(no_object)?;
        let start = usize::try_from(address).unwrap_or(usize::MAX);
        let end = start.checked_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        let Some(body) = end.and_then(|end| all.get(start..end)) else {
            return Err(Problem::NoObject(
                "its function is outside of it".to_owned(),
            ));
        };
        for (at, relocation) in text.relocations() {
            if (address..address + bytes).contains(&at) {
                return Err(Problem::Reference(target(&file, &relocation)));
            }
        }
        Object::of_code(kind, body)
    }

    /// The function of these instructions.
    ///
    /// # Errors
    /// The first rule that one of them breaks.
    pub fn of_code(kind: Kind, bytes: &[u8]) -> Result<Self, Problem> {
        let (whole, rest) = bytes.as_chunks::<BYTES>();
        if !rest.is_empty() || whole.is_empty() {
            return Err(Problem::NoFunction);
        }
        if whole.len() > INSTRUCTIONS_MAX {
            return Err(Problem::TooLong(whole.len()));
        }
        let code: Vec<Instruction> = whole.iter().map(|one| Instruction::read(*one)).collect();
        rules::check(&code)?;
        Ok(Object { kind, code })
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// As it was compiled.
    pub fn instructions(&self) -> usize {
        self.code.len()
    }
}

/// What would be in memory beside the function.
fn check_sections(file: &ElfFile64<'_, Endianness>) -> Result<(), Problem> {
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else {
            continue;
        };
        let name = section.name().unwrap_or("without a name");
        let is_there = (sh_flags & elf::SHF_ALLOC).0 != 0 && section.size() > 0;
        if is_there && name != TEXT {
            return Err(Problem::Section(name.to_owned()));
        }
    }
    Ok(())
}

/// The function, where it begins, and its bytes.
fn find(file: &ElfFile64<'_, Endianness>) -> Result<(Kind, u64, u64), Problem> {
    let mut found = None;
    let text = file.section_by_name(TEXT).map(|section| section.index());
    for symbol in file.symbols() {
        if symbol.kind() != SymbolKind::Text || !symbol.is_global() || symbol.is_undefined() {
            continue;
        }
        let name = symbol.name().unwrap_or("without a name");
        let Some(kind) = KINDS.into_iter().find(|kind| kind.symbol() == name) else {
            return Err(Problem::Visible(name.to_owned()));
        };
        if found.is_some() {
            return Err(Problem::TwoFunctions);
        }
        if symbol.section_index() != text {
            return Err(Problem::NoFunction);
        }
        found = Some((kind, symbol.address(), symbol.size()));
    }
    let (kind, address, bytes) = found.ok_or(Problem::NoFunction)?;
    match address.checked_add(bytes) {
        Some(_) => Ok((kind, address, bytes)),
        None => Err(Problem::NoFunction),
    }
}

/// What a relocation means, as far as it has a name.
fn target(file: &ElfFile64<'_, Endianness>, relocation: &object::Relocation) -> String {
    let object::RelocationTarget::Symbol(index) = relocation.target() else {
        return "something without a name".to_owned();
    };
    let Ok(symbol) = file.symbol_by_index(index) else {
        return "something without a name".to_owned();
    };
    match symbol.name() {
        Ok(name) if !name.is_empty() => name.to_owned(),
        _ => {
            let section = symbol.section_index();
            let section = section.and_then(|index| file.section_by_index(index).ok());
            let name = section.as_ref().and_then(|section| section.name().ok());
            name.unwrap_or("something without a name").to_owned()
        }
    }
}
