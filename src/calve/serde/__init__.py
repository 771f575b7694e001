"""Values with a schema: Avro, Protobuf and JSON Schema, with a schema registry or a given schema."""
