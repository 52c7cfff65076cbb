//! The firmware: from the self test to what it boots.

use serde_json::json;
use wire::Instant;

use super::{Activity, BootMode, BootSource, DiskContent, Event, Hold, Load, Machine, Slot, System};

impl Machine {
    pub(super) fn start_self_test(&mut self, now: Instant) {
        self.boots += 1;
        self.told_nothing_found = false;
        self.secure_boot.current = self.secure_boot.enable;
        // Flags that were waiting for this start have been heeded.
        if let Some(instead) = &mut self.boot.instead {
            instead.lapses = None;
        }
        self.activity = Activity::Post { until: now + self.timings.post.draw(&mut self.dice) };
    }

    pub(super) fn look_for_system(&mut self, now: Instant, first: bool) {
        let mut sources = Vec::new();
        if let Some(instead) = &self.boot.instead
            && (first || instead.hold == Hold::Continuous)
        {
            sources.push(instead.source);
            if instead.hold == Hold::Once {
                self.boot.instead = None;
            }
        }
        for source in &self.boot_order {
            if !sources.contains(source) {
                sources.push(*source);
            }
        }
        self.try_sources(now, sources);
    }

    pub(super) fn try_sources(&mut self, now: Instant, mut sources: Vec<BootSource>) {
        while !sources.is_empty() {
            let source = sources.remove(0);
            if source == BootSource::Hdd {
                if let Some((disk, digest)) = self.disk_with_system() {
                    self.note_boot(
                        json!({ "source": source, "what": "disk", "disk": disk, "digest": digest }),
                    );
                    let until = now + self.timings.system.draw(&mut self.dice);
                    self.activity = Activity::Starting { until, system: System::OnDisk };
                    return;
                }
            } else if let Some(what) = self.loadable(source) {
                self.activity = Activity::Loading { source, rest: sources };
                self.events.push(Event::Load { boot: self.boots, what });
                return;
            }
        }
        self.note_failure(json!({ "what": "nothing" }));
        self.told_nothing_found = true;
        self.activity = Activity::NothingFound { until: now + self.timings.retry.draw(&mut self.dice) };
    }

    fn disk_with_system(&self) -> Option<(String, String)> {
        self.disks().find_map(|(name, content)| match content {
            DiskContent::Image { digest, .. } => Some((name.to_owned(), digest.clone())),
            DiskContent::Blank | DiskContent::Wiped => None,
        })
    }

    fn loadable(&self, source: BootSource) -> Option<Load> {
        match source {
            BootSource::Cd => self.medium(Slot::Cd).cloned().map(Load::Medium),
            BootSource::Floppy => self.medium(Slot::Floppy).cloned().map(Load::Medium),
            BootSource::Pxe => self.has_boot_server.then_some(Load::Pxe(self.mac)),
            BootSource::UefiHttp => match self.boot.mode {
                BootMode::Uefi => self.boot.http_uri.clone().map(Load::Http),
                BootMode::Bios => None,
            },
            BootSource::Hdd => None,
        }
    }

    pub(super) fn run(&mut self, system: System) {
        if let System::Ramdisk(ramdisk) = &system {
            self.events.push(Event::Start { boot: self.boots, ramdisk: ramdisk.clone() });
        }
        self.activity = Activity::Running { system };
    }
}
