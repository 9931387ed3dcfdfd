package attend

import (
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/qkv"
	"github.com/randfeat/randfeat/dense"
)

// readPositions reads an integer or bool array [L] or [B, L]: one number for each position.
func readPositions(env *cli.Env, flag, path string, batch, length int) ([]int64, error) {
	name, t, err := qkv.ReadTensor(env, path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	if t.IsFloat() {
		return nil, fmt.Errorf("--%s: %s holds %s, want bools or integers: convert with array.astype('int32')", flag,
			name, t.Element)
	}
	switch {
	case slices.Equal(t.Shape, []int{batch, length}):
		return t.Int, nil
	case slices.Equal(t.Shape, []int{length}):
		return slices.Repeat(t.Int, batch), nil
	}
	return nil, fmt.Errorf("--%s: %s is %s, want [%d] or [%d, %d]: %w", flag, name, t.Dims(), length, batch, length,
		dense.ErrShape)
}

func asMask(v []int64) []bool {
	out := make([]bool, len(v))
	for i, x := range v {
		out[i] = x != 0
	}
	return out
}

func asIDs(flag string, v []int64) ([]int32, error) {
	out := make([]int32, len(v))
	for i, x := range v {
		if x < math.MinInt32 || x > math.MaxInt32 {
			return nil, fmt.Errorf("--%s: the id %d does not fit into 32 bits: number the sequences anew", flag, x)
		}
		out[i] = int32(x)
	}
	return out, nil
}

// readVisibility reads the masks and segments that the flags name.
func readVisibility(env *cli.Env, f *attendFlags, batch, lenQ, lenK int) (attention.Visibility, error) {
	v := attention.Visibility{Causal: f.causal}
	if f.mask != "" {
		m, err := readPositions(env, "mask", f.mask, batch, lenK)
		if err != nil {
			return v, err
		}
		v.KeyMask = asMask(m)
	}
	if f.segments == "" {
		return v, nil
	}
	ids, err := readPositions(env, "segments", f.segments, batch, lenQ)
	if err != nil {
		return v, err
	}
	if v.Segments, err = asIDs("segments", ids); err != nil {
		return v, err
	}
	switch {
	case f.keySegments != "":
		if ids, err = readPositions(env, "key-segments", f.keySegments, batch, lenK); err != nil {
			return v, err
		}
		v.KeySegments, err = asIDs("key-segments", ids)
	case lenQ != lenK:
		return v, fmt.Errorf("--segments with %d queries and %d keys needs --key-segments for the keys: %w", lenQ, lenK,
			dense.ErrShape)
	}
	return v, err
}
