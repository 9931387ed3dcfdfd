package backend

import (
	"strings"
	"testing"
)

// The precision of products is an option of XLA's backend, which the configuration may also name itself.
func TestWithProducts(t *testing.T) {
	for _, c := range []struct {
		config   string
		products Products
		want     string // "" is an error
	}{
		{"go", "", "go"},
		{"go", TF32, "go"},
		{"xla:cuda", "", "xla:cuda,tf32=false"},
		{"xla:cuda", Float32, "xla:cuda,tf32=false"},
		{"xla:cuda", TF32, "xla:cuda,tf32=true"},
		{"xla:cuda,visible_devices=1", TF32, "xla:cuda,visible_devices=1,tf32=true"},
		{"xla:/opt/pjrt_c_api_cuda_plugin.so", TF32, "xla:/opt/pjrt_c_api_cuda_plugin.so,tf32=true"},
		{"xla:cpu", TF32, "xla:cpu"},
		{"xla:cpu", Float32, "xla:cpu,tf32=false"},
		{"xla", "", "xla:,tf32=false"},
		{"stablehlo:cuda", "", "stablehlo:cuda,tf32=false"},
		{"xla:cuda,tf32=true", "", "xla:cuda,tf32=true"},
		{"xla:cuda,tf32=true", TF32, "xla:cuda,tf32=true"},
		{"xla:cuda,tf32", Float32, ""},
		{"xla:cuda,notf32", Float32, "xla:cuda,notf32"},
		{"xla:cuda,notf32", TF32, ""},
		{"xla:cuda,tf32=false", TF32, ""},
		{"xla:cuda", "float16", ""},
		{"go", "float16", ""},
		{"", "float16", ""},
		{"", TF32, ""},
	} {
		got, err := withProducts(c.config, c.products)
		if (err != nil) != (c.want == "" && c.config+string(c.products) != string(TF32)) || got != c.want {
			t.Errorf("%q with %q: %q, %v; want %q", c.config, c.products, got, err, c.want)
		}
	}
	_, _, err := Flags{Name: "go", Products: "half"}.Open()
	if err == nil || !strings.Contains(err.Error(), "float32 or tf32") {
		t.Errorf("error %v does not say what there is", err)
	}
}
