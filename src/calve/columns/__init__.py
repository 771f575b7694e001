"""Which columns the fields of events need: inference, widening, evolution, and fields without a column."""
