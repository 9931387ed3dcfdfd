"""A GGUF file in another type, by llama.cpp: the same weights for its slow and its fast formats.

    pip install llama-cpp-python
    python peers/requantise.py smollm2.gguf smollm2-q8_0.gguf q8_0
"""
import sys

import llama_cpp

TYPES = {"q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, "q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0,
         "f16": llama_cpp.LLAMA_FTYPE_MOSTLY_F16, "q4_k_m": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M}

p = llama_cpp.llama_model_quantize_default_params()
p.allow_requantize, p.ftype, p.nthread = True, TYPES[sys.argv[3]], 2
sys.exit(llama_cpp.llama_model_quantize(sys.argv[1].encode(), sys.argv[2].encode(), p))
