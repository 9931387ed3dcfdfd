package main

import (
	"math"
	"testing"
)

func TestHalfFloat(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 0x0001: 0x1p-24, 0x0400: 0x1p-14, 0x3555: 0.333251953125,
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		if got := halfFloat(bits); got != want {
			t.Errorf("%#x is %v, want %v", bits, got, want)
		}
	}
	if !math.IsNaN(halfFloat(0x7e00)) {
		t.Error("0x7e00 is no NaN")
	}
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]form{
		"d:10,2":     {dtype: decimal128, scale: 100},
		"d:10,2,64":  {dtype: decimal64, scale: 100},
		"d:5,0,32":   {dtype: decimal32, scale: 1},
		"d:38,3,128": {dtype: decimal128, scale: 1000},
	} {
		if got, err := decimal(text); err != nil || got != want {
			t.Errorf("%s is %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"d:", "d:10", "d:10,x", "d:10,2,256", "d:10,2,64,1"} {
		if _, err := decimal(text); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
