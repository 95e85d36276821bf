"""Generated stubs and the conversion between protobuf and the model."""
