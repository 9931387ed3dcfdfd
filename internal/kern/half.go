package kern

// HalfKeys is the number of keys in a block of HalfScores.
const HalfKeys = 32

// halfScores is the definition of Model.HalfScores.
func halfScores(dst []float32, stride int, q []float32, k []uint16, d int) {
	for b := 0; b*HalfKeys*d < len(k); b++ {
		block := k[b*HalfKeys*d : (b+1)*HalfKeys*d]
		for i := range 4 {
			var sum [HalfKeys]float32
			for c, f := range q[i*d : (i+1)*d] {
				for j, h := range block[c*HalfKeys : (c+1)*HalfKeys] {
					sum[j] += f * FromHalf(h)
				}
			}
			copy(dst[i*stride+b*HalfKeys:], sum[:])
		}
	}
}

// halfValues is the definition of Model.HalfValues.
func halfValues(dst, p []float32, stride int, v []uint16, d int) {
	for j := range len(v) / d {
		for i := range 4 {
			f, sum := p[i*stride+j], dst[i*d:(i+1)*d]
			for c, h := range v[j*d : (j+1)*d] {
				sum[c] += f * FromHalf(h)
			}
		}
	}
}
