//! A Kubernetes API server, as far as an operator, kubectl and kube-rs need one.
