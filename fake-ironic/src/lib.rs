//! Ironic's API, conductor, drivers, boot server and deploy agent.
