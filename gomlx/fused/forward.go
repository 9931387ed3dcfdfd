package fused

import "github.com/randfeat/randfeat/gomlx/triton"

// panelOf is the panel of the rows of a tensor [heads, length, cols] in the precision of the shape.
func (k *kernel) panelOf(name string, head, at value, length, cols int) panel {
	return panel{name, k.elem(), head, at, length, cols, length%at.Shape()[0] == 0}
}

// ofRows is the panel of float32 numbers of single rows.
func (k *kernel) ofRows(name string, head, at value, length int) panel {
	return panel{name, triton.F32, head, at, length, 0, length%at.Shape()[0] == 0}
}

// loaded is a sum of keys (or of queries) for all blocks of features.
type loaded struct{ s, z, r []value }

// load reads sums.
func (k *kernel) load(in sums, index value) (l loaded) {
	for i := range k.blocks() {
		at := k.Range(k.block()).Add(k.Int(i * k.block()))
		l.s = append(l.s, k.read(panel{in.s, k.elem(), index, at, k.Features, k.Value, true}))
		l.z = append(l.z, k.read(panel{in.z, triton.F32, index, at, k.Features, 0, true}))
		l.r = append(l.r, k.read(panel{in.r, triton.F32, index, at, k.Features, 0, true}))
	}
	return l
}

// query divides the sums of all keys for Turns tiles of queries.
func (s Shape) query(z Tiling) Step {
	k := s.kernel("query")
	tile, head := k.Program(0), k.Program(1)
	f := k.features(s.queries(), head, k.Int(0), k.blocks())
	all := k.load(totals, head.Div(k.Int(s.group())))
	turns, even := z.turns(s.Queries), s.Queries%z.Rows == 0
	k.Loop(k.Int(0), k.Int(turns), k.Int(1), nil, func(i value, _ []value) []value {
		at := tile.Mul(k.Int(turns)).Add(i).Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
		q := f.at(at, even)
		logs := f.tall(q, at, true)
		for j := range logs {
			logs[j] = logs[j].Add(all.r[j].Row())
		}
		top := largest(logs)
		num, den := k.Zeros(z.Rows, power(s.Value)), k.Zeros(z.Rows)
		for j, l := range logs {
			phi := l.Sub(top.Column()).Exp2()
			den = den.Add(phi.Mul(all.z[j].Row()).Sum(1))
			num = k.dot(phi, all.s[j], num)
		}
		k.quotient(head, at, num, den, top, even)
		return nil
	})
	heads := s.Batch * s.Heads
	return k.step([3]int{ceil(s.Queries, z.Rows*turns), heads, 1}, z.Warps, z.Stages, k.outputs())
}

// quotient stores num/den, zeros where den is zero, and λ = log + log2 den.
func (k *kernel) quotient(head, at, num, den, log value, even bool) {
	some := den.Greater(k.Float(0))
	den = den.Where(some, k.Float(1))
	out := num.Div(den.Column()).Where(some.Column(), k.Float(0))
	k.write(panel{"o", k.elem(), head, at, k.Queries, k.Value, even}, out)
	lambda := log.Add(den.Log2()).Where(some, k.Float(-Off))
	k.write(panel{"l", triton.F32, head, at, k.Queries, 0, even}, lambda)
}

func (k *kernel) outputs() []Tensor {
	heads := k.Batch * k.Heads
	return []Tensor{{"o", k.elem(), []int{heads, k.Queries, k.Value}}, {"l", triton.F32, []int{heads, k.Queries}}}
}

// unit divides the features of every row by the largest, times 2^lift. It returns them in the precision of products,
// and the logarithms of the divisors.
func (k *kernel) unit(logs []value) (phi []value, log value) {
	log = largest(logs).Plus(-lift)
	for _, l := range logs {
		phi = append(phi, l.Sub(log.Column()).Exp2().To(k.elem()))
	}
	return phi, log
}

// causal adds the keys of earlier chunks and those of the own chunk up to the own position.
func (s Shape) causal(size int, z Tiling) Step {
	k := s.kernel("causal")
	tile, head := k.Program(0), k.Program(1)
	even := s.Queries%z.Rows == 0
	at := tile.Mul(k.Int(z.Rows)).Add(k.Range(z.Rows))
	chunk := tile.Mul(k.Int(z.Rows)).Div(k.Int(size))
	kvHead := head.Div(k.Int(s.group()))
	fq := k.features(s.queries(), head, k.Int(0), k.blocks())
	phi, log := k.unit(fq.tall(fq.at(at, even), at, true))
	before := k.load(prefixes, kvHead.Mul(k.Int(ceil(s.Keys, size))).Add(chunk))

	// Sums are relative to row; at first to the largest reference of the keys before.
	top := before.r[0].Most(0)
	for _, r := range before.r[1:] {
		top = top.Max(r.Most(0))
	}
	num, den := k.Zeros(z.Rows, power(s.Value)), k.Zeros(z.Rows)
	for j, p := range phi {
		worth := p.To(triton.F32).Mul(before.r[j].Sub(top).Exp2().Row())
		den = den.Add(worth.Mul(before.z[j].Row()).Sum(1))
		num = k.dot(worth, before.s[j], num)
	}
	row := k.Zeros(z.Rows).Add(top)

	fk := k.features(s.keys(), kvHead, k.Int(0), k.blocks())
	from, to := chunk.Mul(k.Int(size)), tile.Plus(1).Mul(k.Int(z.Rows))
	end := k.Loop(from, to, k.Int(z.Inner), []value{num, den, row}, func(i value, c []value) []value {
		theirs := i.Add(k.Range(z.Inner))
		v := k.read(panel{"v", k.elem(), kvHead, theirs, s.Keys, s.Value, s.Keys%z.Inner == 0})
		keys, logs := k.unit(fk.tall(fk.at(theirs, s.Keys%z.Inner == 0), theirs, s.Keys%z.Inner == 0))
		scores := k.Zeros(z.Rows, z.Inner)
		for j, p := range phi {
			scores = k.dot(p, keys[j].T(), scores)
		}
		seen := theirs.Row().LessEqual(at.Column())
		worth := logs.Row().Where(seen, k.Float(2*Off)) // of a key, for every query that sees it
		row := c[2].Max(worth.Most(1))
		less := c[2].Sub(row).Exp2()
		scores = scores.Mul(worth.Sub(row.Column()).Exp2())
		return []value{k.dot(scores, v, c[0].Mul(less.Column())), c[1].Mul(less).Add(scores.Sum(1)), row}
	})
	k.quotient(head, at, end[0], end[1], log.Add(end[2]), even)
	heads := s.Batch * s.Heads
	return k.step([3]int{ceil(s.Queries, z.Rows), heads, 1}, z.Warps, z.Stages, k.outputs())
}
