// Package fused holds linear attention as GPU kernels, written with package triton: forward and backward, over all
// keys or causal, for maps with one exponential per feature,
//
//	φ(x)_f = 2^(w_f·x + bias_f + scale·|x|² + row).
//
// Exponents are to base 2: projections, biases and the other terms are given multiplied by log2(e).
//
// A Shape says what one call computes. Its Program is a list of launches over named tensors, for XLA (package backend)
// or for the CPU (Program.Run), where tests compare it with plain loops.
//
// A program makes three passes:
//
//	state   for each chunk of keys: S_f = Σ_j φ_jf v_j and Z_f = Σ_j φ_jf, divided by 2^R_f, the largest φ_jf
//	sum     over all chunks, or prefixes over them (causal)
//	query   (Σ_f φ_f S_f) / (Σ_f φ_f Z_f), divided by the largest term of the row; causal attention adds the pairs of
//	        its own chunk, each with the exponents of its own query and key, so that later keys change nothing
//
// The forward pass also returns the logarithm λ of every denominator. With it, the weights of the backward pass,
// 2^(log φ_i + log φ_j − λ_i), are at most 1 without another search for the largest. The gradients of keys and values
// are again linear attention, of keys over later queries, with values dout and −δ, δ_i = dout_i·out_i.
//
// Files in reading order: doc, shape, kernel (tiles of tensors), state, forward, backward, program, graph, sizes.
package fused
