"""Write a GGUF file anew with all weights in float32: `python float32_gguf.py FROM TO`.

llama.cpp computes with quantised weights in its own way; in float32 its figures can be compared with those of other engines.
"""

import sys

from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize

# The writer sets them itself.
OWN = ("general.architecture", "general.file_type", "GGUF.")


def main() -> None:
    reader = GGUFReader(sys.argv[1])
    writer = GGUFWriter(sys.argv[2], reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith(OWN):
            kind = field.types[0]
            inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, dequantize(tensor.data, tensor.tensor_type))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
