package main

import "testing"

// Answers may say more than a prediction; another one is found.
func TestCheck(t *testing.T) {
	c := cases{want: map[string]answers{"abc": {[]float64{0.5, -1.25}, []byte(`{"rows":[{"prediction":`)}}}
	for body, good := range map[string]bool{
		`{"rows":[{"prediction":-1.25}]}` + "\n":                                       true,
		`{"rows":[{"prediction":-1.25}],"surprises":[{"column":"a","rows":1}]}` + "\n": true,
		`{"rows":[{"prediction":-1.26}]}` + "\n":                                       false,
		`{"rows":[{"prediction":-1.25,"variance":1}]}` + "\n":                          false,
		`{"rows":[{"prediction":-1.25`:                                                 false,
		`{"error":"{"prediction":-1.25}]}`:                                             false,
	} {
		if err := c.check(1, "abc", []byte(body)); (err == nil) != good {
			t.Errorf("%s: %v", body, err)
		}
	}
	if c.check(1, "abd", []byte(`{"rows":[{"prediction":-1.25}]}`)) == nil {
		t.Error("an unknown model passes")
	}
}
