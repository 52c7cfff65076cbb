//! The machine: power, firmware, virtual drives and disks, as a plain value.
//!
//! Time is passed in. What the machine wants done in the world (get an image, start its software) and what happened
//! to it come out as [`Event`]s. It knows no protocol; both of the BMC's drive it through the same methods. It does
//! not break either: faults are decided by the [controller](crate::controller) in front of it.

mod event;
mod firmware;
mod setting;

use serde_json::{Value, json};
use wire::{Dice, Instant};

pub use event::SoftwareError;
pub(crate) use event::{Event, Load, Refused};
pub use setting::{BootMode, BootSettings, BootSource, DiskContent, Hold, Override, Power, Slot};
pub(crate) use setting::{By, Control, Medium};

use crate::{Inventory, MacAddress, Timings, image::Ramdisk};

/// The power supply's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    Off,
    PoweringOn { until: Instant },
    On,
    PoweringOff { until: Instant, then_on: bool },
}

/// What the processors are busy with. Everything but `Dark` needs power.
#[derive(Clone, Debug, PartialEq)]
enum Activity {
    /// Nothing: no power.
    Dark,
    /// The firmware's self test.
    Post { until: Instant },
    /// The firmware loads from `source`; `rest` comes after it.
    Loading { source: BootSource, rest: Vec<BootSource> },
    /// What was found comes up.
    Starting { until: Instant, system: System },
    /// It is up.
    Running { system: System },
    /// It ends in good order.
    Ending { until: Instant, then: Then },
    /// Nothing bootable was found; the firmware looks again.
    NothingFound { until: Instant },
}

/// An operating system.
#[derive(Clone, Debug, PartialEq)]
enum System {
    Ramdisk(Ramdisk),
    OnDisk,
}

/// What comes after an operating system's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    PowerOff,
    Restart,
}

/// How far the host has come since it was last reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    None,
    SelfTest,
    Loading,
    Starting,
    Running,
}

/// How a machine is made.
#[derive(Clone, Debug)]
pub(crate) struct Build {
    pub(crate) inventory: Inventory,
    pub(crate) mac: MacAddress,
    pub(crate) timings: Timings,
    pub(crate) boot_order: Vec<BootSource>,
    pub(crate) has_boot_server: bool,
    pub(crate) ignores_soft_off: bool,
    pub(crate) powered: bool,
    /// What the first disk holds; the others are blank.
    pub(crate) disk: DiskContent,
}

/// A machine.
#[derive(Debug)]
pub(crate) struct Machine {
    inventory: Inventory,
    mac: MacAddress,
    timings: Timings,
    boot_order: Vec<BootSource>,
    has_boot_server: bool,
    ignores_soft_off: bool,
    supply: Supply,
    activity: Activity,
    boot: BootSettings,
    media: [Option<Medium>; 2],
    contents: Vec<DiskContent>,
    secure_boot: SecureBoot,
    /// The number of the present boot: what belongs to an earlier one has no effect any more.
    boots: u64,
    /// Whether the present boot has already told that it found nothing.
    told_nothing_found: bool,
    /// Who gave the latest power command.
    by: By,
    dice: Dice,
    events: Vec<Event>,
}

/// UEFI secure boot; a change holds from the next boot on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SecureBoot {
    pub(crate) enable: bool,
    pub(crate) current: bool,
}

impl Machine {
    pub(crate) fn new(build: Build, dice: Dice) -> Self {
        let Build { inventory, mac, timings, boot_order, has_boot_server, ignores_soft_off, powered, disk } =
            build;
        let mut contents = vec![DiskContent::Blank; inventory.disks.len()];
        if let Some(first) = contents.first_mut() {
            *first = disk;
        }
        let has_system = contents.iter().any(|content| matches!(content, DiskContent::Image { .. }));
        // A machine that is on when its story begins has been on for long.
        let (supply, activity) = match (powered, has_system) {
            (false, _) => (Supply::Off, Activity::Dark),
            (true, true) => (Supply::On, Activity::Running { system: System::OnDisk }),
            (true, false) => (Supply::On, Activity::NothingFound { until: Instant::default() }),
        };
        Self {
            inventory,
            mac,
            timings,
            boot_order,
            has_boot_server,
            ignores_soft_off,
            supply,
            activity,
            boot: BootSettings::default(),
            media: [None, None],
            contents,
            secure_boot: SecureBoot::default(),
            boots: u64::from(powered),
            told_nothing_found: powered,
            by: By::Bmc,
            dice,
            events: Vec::new(),
        }
    }

    /// Gives the machine the chance of the world that it is put into.
    pub(crate) fn reseed(&mut self, dice: Dice) {
        self.dice = dice;
    }

    // What can be seen.

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    pub(crate) fn power(&self) -> Power {
        match self.supply {
            Supply::Off => Power::Off,
            Supply::PoweringOn { .. } => Power::PoweringOn,
            Supply::On => Power::On,
            Supply::PoweringOff { .. } => Power::PoweringOff,
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        match self.activity {
            Activity::Dark => Progress::None,
            Activity::Post { .. } => Progress::SelfTest,
            Activity::Loading { .. } | Activity::NothingFound { .. } => Progress::Loading,
            Activity::Starting { .. } => Progress::Starting,
            Activity::Running { .. } | Activity::Ending { .. } => Progress::Running,
        }
    }

    pub(crate) fn boot(&self) -> &BootSettings {
        &self.boot
    }

    pub(crate) fn medium(&self, slot: Slot) -> Option<&Medium> {
        self.media[slot as usize].as_ref()
    }

    pub(crate) fn secure_boot(&self) -> SecureBoot {
        self.secure_boot
    }

    /// Each disk's name and what it holds.
    pub(crate) fn disks(&self) -> impl Iterator<Item = (&str, &DiskContent)> {
        self.inventory.disks.iter().map(|disk| disk.name.as_str()).zip(&self.contents)
    }

    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What happened since this was last asked.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    // What outsiders do to it.

    pub(crate) fn control(&mut self, now: Instant, control: Control, by: By) -> Result<(), Refused> {
        self.by = by;
        match control {
            Control::On => self.power_on(now),
            Control::ForceOff => self.cut_power(now, false),
            Control::ForceRestart | Control::PowerCycle | Control::GracefulRestart
                if !matches!(self.supply, Supply::On) =>
            {
                return Err(Refused::PowerIsOff);
            }
            Control::ForceRestart => self.restart(now),
            Control::PowerCycle => self.cut_power(now, true),
            Control::SoftOff => self.ask_to_end(now, Then::PowerOff),
            Control::GracefulRestart => self.ask_to_end(now, Then::Restart),
            Control::PushButton => match self.supply {
                Supply::Off | Supply::PoweringOff { .. } => self.power_on(now),
                Supply::On | Supply::PoweringOn { .. } => self.ask_to_end(now, Then::PowerOff),
            },
        }
        Ok(())
    }

    pub(crate) fn set_boot(&mut self, settings: BootSettings) {
        self.boot = settings;
    }

    pub(crate) fn set_secure_boot(&mut self, enable: bool) {
        self.secure_boot.enable = enable;
    }

    pub(crate) fn insert(&mut self, slot: Slot, medium: Medium, by: By) {
        let image = without_login(&medium.image);
        self.note("media", json!({ "event": "inserted", "slot": slot.name(), "image": image, "by": by }));
        self.media[slot as usize] = Some(medium);
    }

    pub(crate) fn eject(&mut self, slot: Slot, by: By) {
        if self.media[slot as usize].take().is_some() {
            self.note("media", json!({ "event": "ejected", "slot": slot.name(), "by": by }));
        }
    }

    // What its own software does to it.

    /// Ends the system that runs in `boot` and switches off.
    pub(crate) fn software_ends(
        &mut self,
        now: Instant,
        boot: u64,
        restart: bool,
    ) -> Result<(), SoftwareError> {
        self.only_in(boot)?;
        self.by = By::Software;
        let then = if restart { Then::Restart } else { Then::PowerOff };
        self.end_system(now, then);
        Ok(())
    }

    /// Changes what a disk holds.
    pub(crate) fn fill_disk(
        &mut self,
        boot: u64,
        name: &str,
        content: DiskContent,
    ) -> Result<(), SoftwareError> {
        self.only_in(boot)?;
        let index = self.inventory.disks.iter().position(|disk| disk.name == name);
        let Some(held) = index.and_then(|index| self.contents.get_mut(index)) else {
            return Err(SoftwareError::NoSuchDisk { name: name.to_owned() });
        };
        let data = match &content {
            DiskContent::Blank | DiskContent::Wiped => json!({ "event": "wiped", "disk": name }),
            DiskContent::Image { digest, url } => {
                json!({ "event": "written", "disk": name, "digest": digest, "url": without_login(url) })
            }
        };
        *held = content;
        self.note("disk", data);
        Ok(())
    }

    fn only_in(&self, boot: u64) -> Result<(), SoftwareError> {
        let alive = matches!(self.activity, Activity::Running { .. } | Activity::Ending { .. });
        if alive && boot == self.boots { Ok(()) } else { Err(SoftwareError::Gone) }
    }

    // What happens by itself.

    /// When something happens next by itself.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.supply {
            Supply::Off => None,
            Supply::PoweringOn { until } | Supply::PoweringOff { until, .. } => Some(until),
            Supply::On => match self.activity {
                Activity::Post { until }
                | Activity::Starting { until, .. }
                | Activity::Ending { until, .. }
                | Activity::NothingFound { until } => Some(until),
                Activity::Dark | Activity::Loading { .. } | Activity::Running { .. } => None,
            },
        }
    }

    /// Lets everything happen that is due.
    pub(crate) fn tick(&mut self, now: Instant) {
        while let Some(due) = self.due().filter(|due| *due <= now) {
            // A machine that was on before the world began has its firmware look again now, not in the past.
            self.happen(if due == Instant::default() { now } else { due });
        }
        if self.boot.instead.as_ref().and_then(|instead| instead.lapses).is_some_and(|lapses| lapses <= now) {
            self.boot.instead = None;
        }
    }

    fn happen(&mut self, now: Instant) {
        match self.supply {
            Supply::Off => {}
            Supply::PoweringOn { .. } => {
                self.supply_becomes(Supply::On);
                self.events.push(Event::Supply { on: true });
                self.start_self_test(now);
            }
            Supply::PoweringOff { then_on, .. } => {
                self.supply_becomes(Supply::Off);
                if then_on {
                    self.power_on(now);
                }
            }
            Supply::On => match std::mem::replace(&mut self.activity, Activity::Dark) {
                Activity::Post { .. } => self.look_for_system(now, true),
                Activity::NothingFound { .. } => self.look_for_system(now, false),
                Activity::Starting { system, .. } => self.run(system),
                Activity::Ending { then: Then::PowerOff, .. } => self.cut_power(now, false),
                Activity::Ending { then: Then::Restart, .. } => self.restart(now),
                waiting @ (Activity::Dark | Activity::Loading { .. } | Activity::Running { .. }) => {
                    self.activity = waiting;
                }
            },
        }
    }

    /// The answer to [`Event::Load`].
    pub(crate) fn loaded(&mut self, now: Instant, boot: u64, found: Result<Ramdisk, String>) {
        if boot != self.boots {
            return;
        }
        match std::mem::replace(&mut self.activity, Activity::Dark) {
            Activity::Loading { source, rest } => match found {
                Ok(ramdisk) => {
                    let from = without_login(&ramdisk.url);
                    self.note_boot(json!({ "source": source, "what": "ramdisk", "url": from }));
                    let until = now + self.timings.ramdisk.draw(&mut self.dice);
                    self.activity = Activity::Starting { until, system: System::Ramdisk(ramdisk) };
                }
                Err(reason) => {
                    self.note_failure(json!({ "source": source, "what": "failed", "reason": reason }));
                    self.try_sources(now, rest);
                }
            },
            elsewhere => self.activity = elsewhere,
        }
    }

    // Power.

    fn power_on(&mut self, now: Instant) {
        match self.supply {
            Supply::Off => {
                let until = now + self.timings.power_on.draw(&mut self.dice);
                self.supply_becomes(Supply::PoweringOn { until });
            }
            // A supply that is going off goes off first.
            Supply::PoweringOff { until, .. } => self.supply = Supply::PoweringOff { until, then_on: true },
            Supply::PoweringOn { .. } | Supply::On => {}
        }
    }

    fn cut_power(&mut self, now: Instant, then_on: bool) {
        match self.supply {
            Supply::Off => {}
            Supply::PoweringOff { until, .. } => self.supply = Supply::PoweringOff { until, then_on },
            Supply::PoweringOn { .. } | Supply::On => {
                // First, so that what stops has no network any more to take its leave on.
                self.events.push(Event::Supply { on: false });
                self.stop();
                let until = now + self.timings.power_off.draw(&mut self.dice);
                self.supply_becomes(Supply::PoweringOff { until, then_on });
            }
        }
    }

    /// Only an operating system that is up hears the power button.
    fn ask_to_end(&mut self, now: Instant, then: Then) {
        match self.activity {
            Activity::Running { .. } if !self.ignores_soft_off => self.end_system(now, then),
            Activity::Running { .. }
            | Activity::Dark
            | Activity::Post { .. }
            | Activity::Loading { .. }
            | Activity::Starting { .. }
            | Activity::Ending { .. }
            | Activity::NothingFound { .. } => {}
        }
    }

    fn end_system(&mut self, now: Instant, then: Then) {
        if matches!(self.activity, Activity::Ending { .. }) {
            return;
        }
        let until = now + self.timings.shutdown.draw(&mut self.dice);
        self.activity = Activity::Ending { until, then };
    }

    fn restart(&mut self, now: Instant) {
        self.stop();
        self.note("power", json!({ "event": "reset", "by": self.by }));
        self.start_self_test(now);
    }

    fn stop(&mut self) {
        self.activity = Activity::Dark;
        self.events.push(Event::Stop);
    }

    fn supply_becomes(&mut self, supply: Supply) {
        let was = self.power();
        self.supply = supply;
        self.note("power", json!({ "event": "changed", "from": was, "to": self.power(), "by": self.by }));
    }

    // The journal.

    fn note(&mut self, topic: &'static str, data: Value) {
        self.events.push(Event::Note { topic, data });
    }

    fn note_boot(&mut self, data: Value) {
        self.note("boot", data);
    }

    /// A firmware that looks again and again tells only the first time what it did not find.
    fn note_failure(&mut self, data: Value) {
        if !self.told_nothing_found {
            self.note_boot(data);
        }
    }
}

/// An address as it may be shown: without a user name and a password, and without a query, which may hold a token.
pub(crate) fn without_login(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match shown.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{path}")
        }
        None => shown.to_owned(),
    }
}

#[cfg(test)]
mod tests;
