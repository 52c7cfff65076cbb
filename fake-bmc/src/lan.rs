//! IPMI over LAN: what the commands mean for this machine.

use std::{io, net::SocketAddr};

use ipmi::{
    Completion, Privilege, Secret,
    command::{BootDevice, BootFlags, BootOption, ChassisStatus, Control as Chassis, DeviceId, Request},
    server::{Config, Incoming, Obstacle, Reply, Responder, Server, User, Users},
    setup::Step,
};
use wire::{Host, Instant};

use crate::{
    bmc::Bmc,
    controller::{Controller, operations},
    fault::{Operation, Seen},
    machine::{BootMode, BootSource, By, Control, Hold, Override, Power, Refused},
};

/// How long boot flags stay valid when the machine is not started meanwhile (IPMI 2.0 section 28.13, parameter 3).
const FLAGS_LAST: std::time::Duration = std::time::Duration::from_secs(60);

/// In parameter 3: the flags stay valid for longer than that.
const KEEP_AFTER_TIMEOUT: u8 = 0x08;

/// Answers IPMI for as long as the host lives.
pub(crate) async fn serve(bmc: &Bmc, host: &Host) -> io::Result<()> {
    let socket = host.udp(ipmi::PORT).await?;
    let mut server = Server::new(Config::new(bmc.guid()), host.dice("ipmi-sessions"));
    let mut options = Options::default();
    let error = ipmi::server::serve_on(host, &socket, |now, peer, datagram| {
        bmc.with(|controller, _| {
            if controller.ipmi_is_silent() {
                return Vec::new();
            }
            let users = users(controller);
            let mut lan = Lan { controller, options: &mut options };
            server.handle(now, peer, datagram, &users, &mut lan)
        })
    })
    .await;
    Err(error)
}

/// The one account. A name or password that is too long for IPMI cannot log in.
fn users(controller: &Controller) -> Users {
    let (username, password) = controller.account();
    let user =
        Secret::new(password).ok().map(|password| User { password, privilege: Privilege::Administrator });
    user.into_iter().map(|user| (username.to_owned(), user)).collect()
}

/// The boot options that are not the machine's: a BMC keeps them, and forgets them when it starts.
#[derive(Debug, Default)]
struct Options {
    progress: u8,
    keep: u8,
    acknowledged: u8,
}

struct Lan<'a> {
    controller: &'a mut Controller,
    options: &'a mut Options,
}

impl Responder for Lan<'_> {
    fn respond(&mut self, command: &Incoming<'_>) -> Reply {
        let request = Request::parse(command.net_fn, command.command, command.data);
        let seen = Seen::of(request.as_ref().map(about).unwrap_or_default());
        if let Some(code) = self.controller.ipmi_completion(&seen) {
            return Reply::refuse(Completion(code));
        }
        match request {
            Ok(request) => self.carry_out(&request, command.now),
            Err(completion) => Reply::refuse(completion),
        }
    }

    /// Whether a password was wrong is known to the client alone, so that a login under another password than the
    /// BMC's own counts as one that the fault struck.
    fn obstruct(&mut self, _: Instant, _: SocketAddr, step: Step) -> Option<Obstacle> {
        match step {
            Step::Rakp1 => self.controller.note_locked_out(),
            Step::Open | Step::Rakp3 => {}
        }
        None
    }
}

/// What a command is about, for the faults that are waiting for it.
fn about(request: &Request) -> Vec<Operation> {
    match request {
        Request::GetChassisStatus => vec![Operation::PowerStatus],
        Request::ChassisControl(chassis) => {
            control(*chassis).map_or_else(|| vec![Operation::Reset], operations)
        }
        Request::SetBootOption(BootOption::Flags(_)) => vec![Operation::SetBoot],
        Request::GetDeviceId | Request::SetBootOption(_) | Request::GetBootOption(_) => Vec::new(),
    }
}

/// What a chassis control does to this machine; it has no diagnostic interrupt.
fn control(chassis: Chassis) -> Option<Control> {
    match chassis {
        Chassis::Down => Some(Control::ForceOff),
        Chassis::Up => Some(Control::On),
        Chassis::Cycle => Some(Control::PowerCycle),
        Chassis::Reset => Some(Control::ForceRestart),
        Chassis::Soft => Some(Control::SoftOff),
        Chassis::Diagnostic => None,
    }
}

impl Lan<'_> {
    fn carry_out(&mut self, request: &Request, now: Instant) -> Reply {
        match request {
            Request::GetDeviceId => {
                Reply::ok(device_id(&self.controller.machine.inventory().bmc_version).encode())
            }
            Request::GetChassisStatus => {
                // Power good goes away only at the end of going off.
                let on = match self.controller.machine.power() {
                    Power::On | Power::PoweringOff => true,
                    Power::Off | Power::PoweringOn => false,
                };
                Reply::ok(ChassisStatus::healthy(on).encode())
            }
            Request::ChassisControl(chassis) => match control(*chassis) {
                None => Reply::refuse(Completion::INVALID_FIELD),
                Some(control) => match self.controller.control(now, control, By::Ipmi) {
                    Ok(()) => Reply::ok([]),
                    Err(Refused::PowerIsOff) => Reply::refuse(Completion::WRONG_STATE),
                },
            },
            Request::SetBootOption(option) => self.set_boot_option(option, now),
            Request::GetBootOption(get) => match self.boot_option(get.number) {
                Some(option) => Reply::ok(option.encode_answer()),
                None => Reply::refuse(Completion::NOT_AVAILABLE),
            },
        }
    }

    fn set_boot_option(&mut self, option: &BootOption, now: Instant) -> Reply {
        match option {
            BootOption::SetInProgress(state) => self.options.progress = *state,
            BootOption::ValidBitClearing(keep) => self.options.keep = *keep,
            BootOption::Acknowledge { mask, data } => {
                self.options.acknowledged = (self.options.acknowledged & !mask) | (data & mask);
            }
            BootOption::Flags(flags) => {
                let Ok(source) = source(flags.device) else {
                    return Reply::refuse(Completion::INVALID_FIELD);
                };
                let mut settings = self.controller.machine.boot().clone();
                settings.instead = source.filter(|_| flags.valid).map(|source| Override {
                    source,
                    hold: if flags.persistent { Hold::Continuous } else { Hold::Once },
                    lapses: (self.options.keep & KEEP_AFTER_TIMEOUT == 0).then(|| now + FLAGS_LAST),
                });
                if flags.valid {
                    settings.mode = if flags.efi { BootMode::Uefi } else { BootMode::Bios };
                }
                self.controller.set_boot(settings);
            }
        }
        Reply::ok([])
    }

    fn boot_option(&self, number: u8) -> Option<BootOption> {
        match number {
            0 => Some(BootOption::SetInProgress(self.options.progress)),
            3 => Some(BootOption::ValidBitClearing(self.options.keep)),
            4 => Some(BootOption::Acknowledge { mask: 0, data: self.options.acknowledged }),
            5 => {
                let boot = self.controller.machine.boot();
                let instead = boot.instead.as_ref();
                Some(BootOption::Flags(BootFlags {
                    valid: instead.is_some(),
                    persistent: instead.is_some_and(|instead| instead.hold == Hold::Continuous),
                    efi: boot.mode == BootMode::Uefi,
                    device: instead.map_or(BootDevice::NoOverride, |instead| device(instead.source)),
                    rest: [0; 5],
                }))
            }
            _ => None,
        }
    }
}

/// A device selector that this machine has nothing for.
struct NoSuchDevice;

/// The floppy or other removable medium has number 15 (Table 28-14, parameter 5).
const REMOVABLE: u8 = 15;

fn source(device: BootDevice) -> Result<Option<BootSource>, NoSuchDevice> {
    match device {
        BootDevice::NoOverride => Ok(None),
        BootDevice::Pxe => Ok(Some(BootSource::Pxe)),
        BootDevice::Disk => Ok(Some(BootSource::Hdd)),
        BootDevice::Cdrom => Ok(Some(BootSource::Cd)),
        BootDevice::Other(REMOVABLE) => Ok(Some(BootSource::Floppy)),
        BootDevice::SafeDisk | BootDevice::Diagnostic | BootDevice::Setup | BootDevice::Other(_) => {
            Err(NoSuchDevice)
        }
    }
}

/// IPMI has no selector for booting by HTTP; what Redfish has set so shows as a network boot.
fn device(source: BootSource) -> BootDevice {
    match source {
        BootSource::Pxe | BootSource::UefiHttp => BootDevice::Pxe,
        BootSource::Hdd => BootDevice::Disk,
        BootSource::Cd => BootDevice::Cdrom,
        BootSource::Floppy => BootDevice::Other(REMOVABLE),
    }
}

fn device_id(version: &str) -> DeviceId {
    let mut parts = version.split('.').map(|part| part.parse::<u8>().unwrap_or(0));
    let major = parts.next().unwrap_or(0) & 0x7f;
    let minor = parts.next().unwrap_or(0) % 100;
    DeviceId {
        device: 0x20,
        revision: 0x01,
        firmware: (major, ((minor / 10) << 4) | (minor % 10)),
        version: 0x02,
        // A chassis device, and nothing that keeps sensors, records or events.
        support: 0x80,
        // No vendor has this number.
        manufacturer: 0,
        product: 0,
        auxiliary: None,
    }
}
