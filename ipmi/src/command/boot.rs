//! System Boot Options: what a machine boots from next (28.12 to 28.14).

use super::Command;
use crate::{Completion, DecodeError, NetFn, read::Reader};

/// The version of the parameters (28.13).
const VERSION: u8 = 0x01;
/// In front of a parameter's number: it is locked.
const LOCKED: u8 = 0x80;

/// A parameter of the boot options (Table 28-14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BootOption {
    /// Parameter 0: 0 complete, 1 in progress, 2 commit.
    SetInProgress(u8),
    /// Parameter 3: which events do *not* clear the boot flags' valid bit. Bit 3: the 60 s that follow their being set
    /// without a power-on or reset.
    ValidBitClearing(u8),
    /// Parameter 4: who has handled the boot information.
    Acknowledge {
        /// Which bits of `data` are written.
        mask: u8,
        /// The handlers.
        data: u8,
    },
    /// Parameter 5.
    Flags(BootFlags),
}

impl BootOption {
    /// The parameter's number.
    pub fn number(&self) -> u8 {
        match self {
            Self::SetInProgress(_) => 0,
            Self::ValidBitClearing(_) => 3,
            Self::Acknowledge { .. } => 4,
            Self::Flags(_) => 5,
        }
    }

    /// The parameter's bytes without its number.
    fn value(&self) -> Vec<u8> {
        match self {
            Self::SetInProgress(state) => vec![*state],
            Self::ValidBitClearing(mask) => vec![*mask],
            Self::Acknowledge { mask, data } => vec![*mask, *data],
            Self::Flags(flags) => flags.encode().to_vec(),
        }
    }

    /// The data of a Get System Boot Options answer.
    pub fn encode_answer(&self) -> Vec<u8> {
        [&[VERSION, self.number()], &self.value()[..]].concat()
    }

    pub(super) fn decode(data: &[u8]) -> Result<Self, Completion> {
        let (number, value) = data.split_first().ok_or(Completion::INVALID_LENGTH)?;
        match (number & !LOCKED, value) {
            // A parameter may be marked invalid or locked without being written.
            (0, [state]) => Ok(Self::SetInProgress(state & 3)),
            (3, [mask]) => Ok(Self::ValidBitClearing(mask & 0x1f)),
            (4, [mask, data]) => Ok(Self::Acknowledge { mask: *mask, data: *data }),
            (5, value) => match value.first_chunk() {
                Some(bytes) if value.len() == bytes.len() => Ok(Self::Flags(BootFlags::decode(*bytes))),
                Some(_) | None => Err(Completion::INVALID_LENGTH),
            },
            (0 | 3 | 4, _) => Err(Completion::INVALID_LENGTH),
            _ => Err(Completion::NOT_AVAILABLE),
        }
    }

    fn decode_answer(data: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(data);
        let [_version, number] = reader.array()?;
        match number & !LOCKED {
            0 => Ok(Self::SetInProgress(reader.u8()? & 3)),
            3 => Ok(Self::ValidBitClearing(reader.u8()? & 0x1f)),
            4 => Ok(Self::Acknowledge { mask: reader.u8()?, data: reader.u8()? }),
            5 => Ok(Self::Flags(BootFlags::decode(reader.array()?))),
            value => Err(DecodeError::Value { field: "boot option", value }),
        }
    }
}

/// Where the next boot goes, or all further ones (Table 28-14, parameter 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BootFlags {
    /// Whether they count at all.
    pub valid: bool,
    /// Whether they count for all further boots; else for the next alone.
    pub persistent: bool,
    /// Whether to boot by EFI; else by the BIOS of old.
    pub efi: bool,
    /// From what.
    pub device: BootDevice,
    /// The bits that have no name here, as they were set.
    pub rest: [u8; 5],
}

impl BootFlags {
    const VALID: u8 = 0x80;
    const PERSISTENT: u8 = 0x40;
    const EFI: u8 = 0x20;
    const DEVICE: u8 = 0x3c;

    /// The five bytes.
    pub fn encode(&self) -> [u8; 5] {
        let mut bytes = self.rest;
        for (set, bit) in
            [(self.valid, Self::VALID), (self.persistent, Self::PERSISTENT), (self.efi, Self::EFI)]
        {
            if set {
                bytes[0] |= bit;
            }
        }
        bytes[1] |= self.device.number() << 2;
        bytes
    }

    /// Reads the five bytes.
    pub fn decode(bytes: [u8; 5]) -> Self {
        let mut rest = bytes;
        rest[0] &= !(Self::VALID | Self::PERSISTENT | Self::EFI);
        rest[1] &= !Self::DEVICE;
        Self {
            valid: bytes[0] & Self::VALID != 0,
            persistent: bytes[0] & Self::PERSISTENT != 0,
            efi: bytes[0] & Self::EFI != 0,
            device: BootDevice::from_number(bytes[1] >> 2),
            rest,
        }
    }
}

/// From what to boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BootDevice {
    /// As the firmware likes.
    #[default]
    NoOverride,
    /// The network.
    Pxe,
    /// The default disk.
    Disk,
    /// The default disk, in safe mode.
    SafeDisk,
    /// The diagnostic partition.
    Diagnostic,
    /// The CD or DVD drive.
    Cdrom,
    /// No boot: the firmware's set-up.
    Setup,
    /// Another, by its number of four bits.
    Other(u8),
}

impl BootDevice {
    fn number(self) -> u8 {
        match self {
            Self::NoOverride => 0,
            Self::Pxe => 1,
            Self::Disk => 2,
            Self::SafeDisk => 3,
            Self::Diagnostic => 4,
            Self::Cdrom => 5,
            Self::Setup => 6,
            Self::Other(number) => number & 0x0f,
        }
    }

    fn from_number(number: u8) -> Self {
        match number & 0x0f {
            0 => Self::NoOverride,
            1 => Self::Pxe,
            2 => Self::Disk,
            3 => Self::SafeDisk,
            4 => Self::Diagnostic,
            5 => Self::Cdrom,
            6 => Self::Setup,
            other => Self::Other(other),
        }
    }
}

/// Set System Boot Options (28.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetBootOption(pub BootOption);

impl Command for SetBootOption {
    const NET_FN: NetFn = NetFn::CHASSIS;
    const CODE: u8 = 0x08;
    type Answer = ();

    fn encode(&self) -> Vec<u8> {
        [&[self.0.number()], &self.0.value()[..]].concat()
    }

    fn answer(_: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }
}

/// Get System Boot Options (28.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetBootOption {
    /// The parameter's number.
    pub number: u8,
}

impl GetBootOption {
    pub(super) fn decode(data: &[u8]) -> Result<Self, Completion> {
        match data {
            [number, _set, _block] => Ok(Self { number: number & !LOCKED }),
            _ => Err(Completion::INVALID_LENGTH),
        }
    }
}

impl Command for GetBootOption {
    const NET_FN: NetFn = NetFn::CHASSIS;
    const CODE: u8 = 0x09;
    type Answer = BootOption;

    fn encode(&self) -> Vec<u8> {
        vec![self.number, 0, 0]
    }

    fn answer(data: &[u8]) -> Result<BootOption, DecodeError> {
        BootOption::decode_answer(data)
    }
}
