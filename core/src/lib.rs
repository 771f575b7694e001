//! The compiled core of Calve: strict JSON events into typed Arrow columns, in one pass over each event.
//!
//! Python calls it through ctypes; what crosses is the Arrow C data interface. There are no dependencies.
#![deny(unsafe_code)]

mod border;
