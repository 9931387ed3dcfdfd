package weights

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// The blocks and their numbers come from llama.cpp's package gguf (peers/blocks.py).
func TestDecodeEqualsReference(t *testing.T) {
	b, err := os.ReadFile("testdata/blocks.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Type    string
		Data    []byte
		Float32 []byte
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{"F32": true}
	for _, c := range cases {
		seen[c.Type] = true
		kind := Type(0)
		for kind < types && kind.String() != c.Type {
			kind++
		}
		got := make([]float32, len(c.Float32)/4)
		numbers, bytes := kind.Block()
		if len(c.Data)/bytes*numbers != len(got) {
			t.Fatalf("%v: %d bytes for %d numbers", kind, len(c.Data), len(got))
		}
		Decode(got, c.Data, kind)
		for i, v := range got {
			if want := binary.LittleEndian.Uint32(c.Float32[4*i:]); math.Float32bits(v) != want {
				t.Fatalf("%v: number %d is %v, want %v", kind, i, v, math.Float32frombits(want))
			}
		}
	}
	for _, name := range typeNames {
		if !seen[name] {
			t.Errorf("no reference of %s", name)
		}
	}
}

func TestRow(t *testing.T) {
	x := Tensor{Type: F32, Shape: []int{2, 2}}
	for _, v := range []float32{1, 2, 3, 4} {
		x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(v))
	}
	row := make([]float32, 2)
	if x.Row(row, 1); row[0] != 3 || row[1] != 4 {
		t.Errorf("row 1 is %v", row)
	}
	if all := x.Floats(nil); len(all) != 4 || all[2] != 3 {
		t.Errorf("all are %v", all)
	}
}

// The scaling of Llama 3 keeps fast pairs, divides slow ones by the factor and lies between elsewhere. The wavelengths
// are those of Llama 3.1: 8192 positions, factors 1 and 4.
func TestRope(t *testing.T) {
	plain, _, err := Rope(500000, 128, RopeScaling{})
	if err != nil {
		t.Fatal(err)
	}
	scaled, _, err := Rope(500000, 128, RopeScaling{Kind: "llama3", Factor: 8, LowFreq: 1, HighFreq: 4,
		OriginalPosition: 8192})
	if err != nil {
		t.Fatal(err)
	}
	between := 0
	for j, f := range plain {
		switch wave := 2 * math.Pi / f; {
		case wave < 8192.0/4 && scaled[j] != f, wave > 8192 && scaled[j] != f/8:
			t.Errorf("pair %d of wavelength %.0f: %v became %v", j, wave, f, scaled[j])
		case wave >= 8192.0/4 && wave <= 8192:
			between++
			s := (8192/wave - 1) / 3
			if want := (1-s)*f/8 + s*f; math.Abs(scaled[j]/want-1) > 1e-12 {
				t.Errorf("pair %d: %v, want %v", j, scaled[j], want)
			}
		}
	}
	if between == 0 || plain[0] != 1 {
		t.Errorf("%d pairs between, first %v", between, plain[0])
	}
	for _, s := range []RopeScaling{{Kind: "yarn", Factor: 2}, {Kind: "linear"}, {Kind: "llama3", Factor: 8}} {
		if _, _, err := Rope(1e4, 8, s); err == nil {
			t.Errorf("%+v was accepted", s)
		}
	}
}
