package fused

import (
	"math"

	"github.com/randfeat/randfeat/gomlx/triton"
)

// weighted are queries whose features are divided by 2^λ.
func (s Shape) weighted() side {
	of := s.queries()
	of.row, of.rowHeads = "minus", s.Heads
	return of
}

// delta stores −λ and −δ, δ_i = dout_i·out_i.
func (s Shape) delta(z Tiling) Step {
	k := s.kernel("delta")
	head := k.Program(1)
	at := k.Program(0).Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
	wide := func(name string) value { return k.read(k.panelOf(name, head, at, s.Queries, s.Value)).To(triton.F32) }
	delta, lambda := wide("o").Mul(wide("do")).Sum(1), k.read(k.ofRows("l", head, at, s.Queries))
	k.write(k.ofRows("delta", head, at, s.Queries), delta.Times(-1))
	k.write(k.ofRows("minus", head, at, s.Queries), lambda.Times(-1))
	heads := s.Batch * s.Heads
	rows := []int{heads, s.Queries}
	return k.step([3]int{ceil(s.Queries, z.Rows), heads, 1}, 4, 1,
		[]Tensor{{"delta", triton.F32, rows}, {"minus", triton.F32, rows}})
}

// gradient stores Σ_f dlog_f ∂log_f/∂x for rows x of a side.
func (k *kernel) gradient(name string, f features, x, at value, logs []value, length int) {
	d := k.Zeros(at.Shape()[0], power(k.Dim))
	all := k.Zeros(at.Shape()[0])
	for i, l := range logs {
		d, all = k.dot(l, f.w[i], d), all.Add(l.Sum(1))
	}
	if f.side.scale != "" {
		d = d.Add(x.To(triton.F32).Mul(all.Mul(f.scale).Times(2).Column()))
	}
	k.write(k.panelOf(name, f.head, at, length, k.Dim), d.Times(math.Ln2))
	if f.side.row == "row" {
		k.write(k.ofRows("drow", f.head, at, length), all.Times(math.Ln2))
	}
}

// through returns the gradients of exponents through sums: φ_f (y·S_f + c Z_f).
func (k *kernel) through(phi []value, in loaded, y, c value) (logs []value) {
	for i, p := range phi {
		logs = append(logs, p.Mul(k.dot(y, in.s[i].T()).Add(c.Mul(in.z[i].Row()))))
	}
	return logs
}

// dquery stores the gradients of queries over all keys.
func (s Shape) dquery(z Tiling) Step {
	k := s.kernel("dquery")
	tile, head := k.Program(0), k.Program(1)
	f := k.features(s.queries(), head, k.Int(0), k.blocks())
	all := k.load(totals, head.Div(k.Int(s.group())))
	turns := z.turns(s.Queries)
	k.Loop(k.Int(0), k.Int(turns), k.Int(1), nil, func(i value, _ []value) []value {
		at := tile.Mul(k.Int(turns)).Add(i).Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
		q := k.read(k.panelOf("q", head, at, s.Queries, s.Dim))
		minus := k.read(k.ofRows("minus", head, at, s.Queries)).Column()
		phi := f.tall(q, at, true)
		for j := range phi {
			phi[j] = phi[j].Add(all.r[j].Row()).Add(minus).Exp2()
		}
		dout := k.read(k.panelOf("do", head, at, s.Queries, s.Value))
		logs := k.through(phi, all, dout, k.read(k.ofRows("delta", head, at, s.Queries)).Column())
		k.gradient("dq", f, q, at, logs, s.Queries)
		return nil
	})
	heads := s.Batch * s.Heads
	return k.step([3]int{ceil(s.Queries, z.Rows*turns), heads, 1}, z.Warps, z.Stages,
		[]Tensor{{"dq", k.elem(), []int{heads, s.Queries, s.Dim}}})
}

// dkey stores the gradients of keys and values over all queries.
func (s Shape) dkey(z Tiling) Step {
	k := s.kernel("dkey")
	tile, head := k.Program(0), k.Program(1)
	f := k.features(s.keys(), head, k.Int(0), k.blocks())
	all := k.load(totals2, head)
	turns := z.turns(s.Keys)
	k.Loop(k.Int(0), k.Int(turns), k.Int(1), nil, func(i value, _ []value) []value {
		at := tile.Mul(k.Int(turns)).Add(i).Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
		even := s.Keys%z.Rows == 0
		key, v := f.at(at, even), k.read(k.panelOf("v", head, at, s.Keys, s.Value))
		phi := f.tall(key, at, even)
		dv := k.Zeros(z.Rows, power(s.Value))
		for j := range phi {
			phi[j] = phi[j].Add(all.r[j].Row()).Exp2()
			dv = k.dot(phi[j], all.s[j], dv)
		}
		k.write(k.panelOf("dv", head, at, s.Keys, s.Value), dv)
		k.gradient("dk", f, key, at, k.through(phi, all, v, k.Float(1)), s.Keys)
		return nil
	})
	return k.step([3]int{ceil(s.Keys, z.Rows*turns), s.Batch * s.KVHeads, 1}, z.Warps, z.Stages, k.ofKeys())
}

func (k *kernel) ofKeys() []Tensor {
	heads := k.Batch * k.KVHeads
	out := []Tensor{{"dv", k.elem(), []int{heads, k.Keys, k.Value}}, {"dk", k.elem(), []int{heads, k.Keys, k.Dim}}}
	if k.Rows > 0 {
		out = append(out, Tensor{"drow", triton.F32, []int{heads, k.Keys}})
	}
	return out
}

// most bounds the logarithm of the weight of a pair in units of its largest features: far above it, no product of the
// features is left to be weighted.
const most = 100

// dcausalQuery stores the gradients of queries over the keys up to their own position.
func (s Shape) dcausalQuery(size int, z Tiling) Step {
	k := s.kernel("dcausalQuery")
	tile, head := k.Program(0), k.Program(1)
	even := s.Queries%z.Rows == 0
	at := tile.Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
	chunk := tile.Mul(k.Int(z.Rows)).Div(k.Int(size))
	kvHead := head.Div(k.Int(s.group()))
	f := k.features(s.queries(), head, k.Int(0), k.blocks())
	q, dout := f.at(at, even), k.read(k.panelOf("do", head, at, s.Queries, s.Value))
	minus, delta := k.read(k.ofRows("minus", head, at, s.Queries)), k.read(k.ofRows("delta", head, at, s.Queries))
	log := largest(f.tall(q, at, true)).Plus(-lift).Add(minus)

	fk := k.features(s.keys(), kvHead, k.Int(0), k.blocks())
	var inside []value
	for range k.blocks() {
		inside = append(inside, k.Zeros(z.Rows, s.block()))
	}
	from, to := chunk.Mul(k.Int(size)), tile.Plus(1).Mul(k.Int(z.Rows))
	inside = k.Loop(from, to, k.Int(z.Inner), inside, func(i value, c []value) []value {
		theirs := i.Add(k.Range(z.Inner))
		v := k.read(k.panelOf("v", kvHead, theirs, s.Keys, s.Value))
		keys, of := k.unit(fk.tall(fk.at(theirs, s.Keys%z.Inner == 0), theirs, s.Keys%z.Inner == 0))
		seen := theirs.Row().LessEqual(at.Column())
		worth := of.Row().Add(log.Column()).Min(k.Float(most)).Where(seen, k.Float(2*Off)).Exp2()
		pairs := k.dot(dout, v.T()).Add(delta.Column()).Mul(worth)
		var next []value
		for j := range keys {
			next = append(next, k.dot(pairs, keys[j], c[j]))
		}
		return next
	})

	before := k.load(prefixes, kvHead.Mul(k.Int(ceil(s.Keys, size))).Add(chunk))
	logs := f.tall(q, at, true, minus)
	var phi []value
	for j := range logs {
		inside[j] = inside[j].Mul(logs[j].Sub(log.Column()).Exp2())
		phi = append(phi, logs[j].Add(before.r[j].Row()).Exp2())
	}
	logs = k.through(phi, before, dout, delta.Column())
	for j := range logs {
		logs[j] = logs[j].Add(inside[j])
	}
	k.gradient("dq", f, q, at, logs, s.Queries)
	heads := s.Batch * s.Heads
	return k.step([3]int{ceil(s.Queries, z.Rows), heads, 1}, z.Warps, z.Stages,
		[]Tensor{{"dq", k.elem(), []int{heads, s.Queries, s.Dim}}})
}

// dcausalKey stores the gradients of keys and values over the queries from their own position on.
func (s Shape) dcausalKey(size int, z Tiling) Step {
	k := s.kernel("dcausalKey")
	tile, head := k.Program(0), k.Program(1)
	even := s.Keys%z.Rows == 0
	at := tile.Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
	chunk := tile.Mul(k.Int(z.Rows)).Div(k.Int(size))
	f := k.features(s.keys(), head, k.Int(0), k.blocks())
	key, v := f.at(at, even), k.read(k.panelOf("v", head, at, s.Keys, s.Value))
	phi, log := k.unit(f.tall(key, at, even))

	sum := []value{k.Zeros(z.Rows, power(s.Value))}
	for range phi {
		sum = append(sum, k.Zeros(z.Rows, s.block()))
	}
	from, to := tile.Mul(k.Int(z.Rows)), chunk.Plus(1).Mul(k.Int(size)).Min(k.Int(s.Keys))
	for h := range s.group() {
		qHead := head.Mul(k.Int(s.group())).Add(k.Int(h))
		fq := k.features(s.queries(), qHead, k.Int(0), k.blocks())
		sum = k.Loop(from, to, k.Int(z.Inner), sum, func(i value, c []value) []value {
			theirs := i.Add(k.Range(z.Inner))
			dout := k.read(k.panelOf("do", qHead, theirs, s.Queries, s.Value))
			minus := k.read(k.ofRows("minus", qHead, theirs, s.Queries))
			delta := k.read(k.ofRows("delta", qHead, theirs, s.Queries))
			queries, of := k.unit(fq.tall(fq.at(theirs, s.Queries%z.Inner == 0), theirs, true))
			scores := k.Zeros(z.Rows, z.Inner)
			for j, p := range phi {
				scores = k.dot(p, queries[j].T(), scores)
			}
			seen := at.Column().LessEqual(theirs.Row())
			if s.Queries%z.Inner != 0 {
				seen = seen.And(theirs.Less(k.Int(s.Queries)).Row())
			}
			worth := of.Add(minus).Row().Add(log.Column()).Min(k.Float(most)).Where(seen, k.Float(2*Off)).Exp2()
			next := []value{k.dot(scores.Mul(worth), dout, c[0])}
			pairs := k.dot(v, dout.T()).Add(delta.Row()).Mul(worth)
			for j := range queries {
				next = append(next, k.dot(pairs, queries[j], c[j+1]))
			}
			return next
		})
	}

	after := k.load(suffixes, head.Mul(k.Int(ceil(s.Keys, size))).Add(chunk))
	logs, dv := f.tall(key, at, even, log.Times(-1)), sum[0]
	for j, l := range logs {
		sum[j+1] = sum[j+1].Mul(l.Exp2())
		logs[j] = l.Add(log.Column()).Add(after.r[j].Row()).Exp2()
		dv = k.dot(logs[j], after.s[j], dv)
	}
	logs = k.through(logs, after, v, k.Float(1))
	for j := range logs {
		logs[j] = logs[j].Add(sum[j+1])
	}
	k.write(k.panelOf("dv", head, at, s.Keys, s.Value), dv)
	k.gradient("dk", f, key, at, logs, s.Keys)
	return k.step([3]int{ceil(s.Keys, z.Rows), s.Batch * s.KVHeads, 1}, z.Warps, z.Stages, k.ofKeys())
}
