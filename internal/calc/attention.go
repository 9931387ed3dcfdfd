package calc

// attentionEntries are known names that wait for their package.
func attentionEntries() []Entry {
	const wait = "waits for the attention package"
	return []Entry{
		{
			Name: "attention.linear", Reference: "docs/theory.md §6: linear attention, x = d^{-1/4} q",
			Inputs: []Input{matrix("omega"), matrix("Q"), matrix("K_"), matrix("V_"), choice("family", "positive", "oprf", "trig", "hyperbolic"), number("A"), flag("causal")},
			Skip:   wait,
		},
		{
			Name: "attention.exact", Reference: "softmax(QKᵀ/√d) V",
			Inputs: []Input{matrix("Q"), matrix("K_"), matrix("V_"), flag("causal")},
			Skip:   wait,
		},
	}
}
