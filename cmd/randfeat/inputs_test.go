package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/tensorfile"
)

// The error for a missing file suggests a similar name, or names the folder.
func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.csv"), []byte("a,b\n1,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "m.rf")
	fails(t, exitFailed, "trian.csv does not exist, did you mean "+filepath.Join(dir, "train.csv")+"?", "fit",
		filepath.Join(dir, "trian.csv"), "--target", "b", "-o", out)
	for _, name := range []string{"zebra.rf", "grin.csv"} {
		fails(t, exitFailed, "randfeat: "+name+" does not exist in "+dir+"\n", "inspect", filepath.Join(dir, name))
	}
	fails(t, exitFailed, "there is no directory "+filepath.Join(dir, "no")+string(filepath.Separator)+" either",
		"features",
		filepath.Join(dir, "no", "x.npy"), "-o", out, "--family", "trig", "--projections", "4")
}

// Tensors of safetensors files are inputs of features, gram and attend.
func TestTensorInputs(t *testing.T) {
	dir := t.TempDir()
	half := func(v ...uint16) []byte {
		var b []byte
		for _, w := range v {
			b = binary.LittleEndian.AppendUint16(b, w)
		}
		return b
	}
	values := half(0x3c00, 0x3800, 0xbc00, 0x0000) // 1, ½, −1, 0
	brain := half(0x3f80, 0x3f00, 0xbf80, 0x0000)
	var b bytes.Buffer
	file := tensorfile.File{Tensors: []tensorfile.Tensor{{Name: "half", DType: "F16", Shape: []int{2, 2}, Data: values},
		{Name: "brain", DType: "BF16", Shape: []int{2, 2}, Data: brain}}}
	if _, err := file.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "m.safetensors")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := save(t, dir, "x.npy", dense.MustFromRows([][]float32{{1, 0.5}, {-1, 0}}))
	for _, in := range []string{path + ":half", path + ":brain", plain} {
		got := ok(t, "gram", in, plain, "--exact").stdout
		if want := ok(t, "gram", plain, plain, "--exact").stdout; got != want {
			t.Errorf("gram of %s is %s, want %s", in, got, want)
		}
		phi, o := filepath.Join(dir, "phi.npy"), filepath.Join(dir, "o.npy")
		ok(t, "features", in, "-o", phi, "--family", "trig", "--projections", "4")
		if a := load(t, phi); a.DType != npy.Float32 || a.Rows() != 2 {
			t.Errorf("features of %s: %v, %d rows", in, a.DType, a.Rows())
		}
		ok(t, "attend", in, in, in, "-o", o, "--exact")
		if a := load(t, o); a.DType != npy.Float32 || a.Rows() != 2 {
			t.Errorf("attend of %s: %v, %d rows", in, a.DType, a.Rows())
		}
	}
	fails(t, exitFailed, `2 tensors: name one after the file, such as m.safetensors:half`, "gram", path, plain, "--exact")
}
