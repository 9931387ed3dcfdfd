package packed

import (
	"maps"
	"testing"
)

func TestPacked(t *testing.T) {
	want := map[string]string{"a": "1", "b": "<é>"}
	b, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := Decode(&got, b); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if Decode(&got, []byte("{}")) == nil || Decode(&got, b[:len(b)/2]) == nil {
		t.Error("text and half of a file are read")
	}
	if _, err := Encode(func() {}); err == nil {
		t.Error("a function is written")
	}
}
