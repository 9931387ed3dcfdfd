package papers

import "github.com/randfeat/randfeat/repro/lab"

// Contents lists everything that the five papers number and every application they show, in their order, with the
// places where it is repeated. numbered.txt names the same entries; a test compares the two.
func Contents() []lab.Paper {
	return []lab.Paper{{Name: chefs, Entries: chefsContents}, {Name: hybrid, Entries: hybridContents},
		{Name: orf, Entries: orfContents}, {Name: simplex, Entries: simplexContents}, {Name: dark,
			Entries: darkContents}}
}

// settings is the reason why tables of hyperparameters have no page.
const settings = "Hyperparameters of models that need TPUs; a setting, not a result. Ours stand beside each " +
	"training run"

var chefsContents = []lab.Entry{
	{Label: "Fig 1 left", What: "Map of the random feature methods",
		Tests: []string{"family.TestEveryFamilyHasExamples"},
		Why:   "A drawing without numbers. Every method on it is a family of this library: `randfeat families`."},
	{Label: "Fig 1 right", What: "Variance of OPRF against positive features", Items: []string{"chefs-fig1"}},
	{Label: "Theorem 3.1", What: "When generalized exponential features are unbiased",
		Items: []string{"chefs-fig2"}, Tests: []string{"randfeat.TestEveryFamilyWithEveryCoupling"}},
	{Label: "Theorem 3.2", What: "Their variance", Items: []string{"chefs-fig1", "chefs-fig2"},
		Tests: []string{"internal/forms.TestGERFReference"}},
	{Label: "Theorem 3.3", What: "The real A of least variance", Items: []string{"chefs-fig1"},
		Tests: []string{"internal/forms.TestOPRFOptimal"}},
	{Label: "Theorem 3.4", What: "Variance of Poisson features", Items: []string{"chefs-fig2"},
		Tests: []string{"internal/calc.TestGolden"}},
	{Label: "Theorem 3.5", What: "Variance of geometric features", Items: []string{"chefs-fig2"},
		Tests: []string{"internal/calc.TestGolden"}},
	{Label: "Theorem 4.1", What: "Orthogonal OPRFs beat independent ones", Items: []string{"chefs-theorem43"},
		Tests: []string{"internal/forms.TestOrthogonalGainBound"}},
	{Label: "Theorem 4.2", What: "Exponential tails of OPRF", Items: []string{"chefs-theorem43"},
		Tests: []string{"internal/forms.TestOPRFTails"}},
	{Label: "Fig 2", What: "Log-variance of eight families in four regimes", Items: []string{"chefs-fig2"}},
	{Label: "Theorem 4.3", What: "Uniform convergence of attention with OPRF", Items: []string{"chefs-theorem43"}},
	{Label: "Table 1", What: "Non-parametric classification of eight UCI sets", Items: []string{"chefs-table1"}},
	{Label: "§5.2", What: "OPRF is best on average, new families on every set", Items: []string{"chefs-table1"}},
	{Label: "Table 2", What: "GLUE with low-rank attention, BERT base", Run: &lab.Run{
		Command: "training lab -model MINILM encoder",
		Results: "Chefs' Table 2 with MiniLM: held-out scores (CoLA: Matthews' correlation, MRPC: F1)"},
		Why: "BERT base and training on TPUs are out of reach; in their place MiniLM, and an encoder of our own " +
			"(training lab glue). The paper pretrains each variant with its own attention (§9.10.3); ours are " +
			"pretrained with exact attention, so the table itself is not judged."},
	{Label: "§5.3.2", What: "The fit of FAVOR++ takes negligible time, O(Ld)", Run: &lab.Run{
		Command: "training lab speed", Results: "Steps of a vision Transformer by the number of patches"},
		Why: "The cost of fitting per batch is part of the steps of FAVOR++ there; it was not timed alone."},
	{Label: "Fig 3", What: "LibriSpeech: word error rate of FAVOR++ and FAVOR+",
		Run: &lab.Run{Command: "training lab speech",
			Results: "Speech"},
		Why: "17 layers on LibriSpeech need a TPU pod; in their place a Conformer with CTC on joined spoken " +
			"digits (FSDD), and the encoder of Whisper tiny.en without training (bench/WHISPER.md)."},
	{Label: "Fig 4 left", What: "ImageNet accuracy from nothing and from MAE weights",
		Run: &lab.Run{Command: "training lab mnist", Results: "Vision Transformers on mnist: test accuracy"},
		Why: "ViT-Large on ImageNet needs a TPU pod; in its place small ViTs on MNIST and Fashion-MNIST."},
	{Label: "Fig 4 right", What: "Steps per second over the number of patches",
		Run: &lab.Run{Command: "training lab speed",
			Results: "Steps of a vision Transformer by the number of patches"},
		Why: "FAVOR+ was not timed; it is FAVOR++ without the fit."},
	{Label: "Theorem 9.1", What: "Orthogonality helps every E g(ωᵀz, |ω|) with non-negative coefficients",
		Items: []string{"chefs-theorem43"}, Tests: []string{"internal/forms.TestRelMSEOrder"}},
	{Label: "Lemma 9.1", What: "Hoeffding's inequality", Tests: []string{"internal/forms.TestOPRFTails"},
		Why: "Known; used for Theorem 4.2."},
	{Label: "Table 3", What: "Standard deviations of Table 1", Items: []string{"chefs-table1"}},
	{Label: "Table 4", What: "Hyperparameters of BERT pretraining", Why: settings + " (repro/training/lab/glue.go)."},
	{Label: "Table 5", What: "Sizes of the pretraining texts", Why: "Counts of Books and Wikipedia, which are not " +
		"used here: " +
		"our encoders read the Penn Treebank and the GLUE sentences."},
	{Label: "Table 6", What: "Hyperparameters of the speech models",
		Why: settings + " (repro/training/lab/speech.go)."},
	{Label: "Table 7", What: "Hyperparameters of MAE pretraining", Why: settings +
		" (repro/training/lab/vit.go); no MAE is trained here."},
	{Label: "Table 8", What: "Hyperparameters of fine-tuning ViTs", Why: settings + " (repro/training/lab/vit.go)."},
	{Label: "Table 9", What: "Hyperparameters of ViTs trained from nothing",
		Why: settings + " (repro/training/lab/vit.go)."},
	{Label: "Table 10", What: "Sizes of ViT Large", Why: settings + " (repro/training/lab/vit.go)."},
	{Label: "Table 11", What: "Sizes of ViT tiny", Why: settings + " (repro/training/lab/vit.go)."},
	{Label: "Table 12", What: "Patches and sizes of images of Fig 4 right", Why: settings +
		" (repro/training/lab/vit.go, Speed)."},
}

var hybridContents = []lab.Entry{
	{Label: "Lemma 2.2", What: "MSE of positive and trigonometric features", Items: []string{"hybrid-fig1"},
		Tests: []string{"internal/calc.TestGolden"}},
	{Label: "Lemma 2.3", What: "A hybrid estimator is a dot product of features",
		Tests: []string{"randfeat.TestMapsAgreeWithEval"}},
	{Label: "Lemma 2.4", What: "E exp(ωᵀz) for complex z: complex exponential estimators are unbiased",
		Tests: []string{"randfeat.TestEveryFamilyWithEveryCoupling"}},
	{Label: "Fig 1", What: "MSE of three estimators over angle and length", Items: []string{"hybrid-fig1"}},
	{Label: "§2.4", What: "Bases only for the heaviest pairs of clusters", Items: []string{"hybrid-pairs"}},
	{Label: "Theorem 3.1", What: "MSE of the bipolar hybrid", Items: []string{"hybrid-fig1", "hybrid-fig5"},
		Tests: []string{"theory.TestOfHybridsAgainstGolden"}},
	{Label: "Lemma 3.2", What: "Moments of the angular coefficient", Items: []string{"hybrid-fig1"},
		Tests: []string{"internal/forms.TestAngularSphere"}},
	{Label: "Lemma 3.4", What: "Largest relative errors of the two bases", Items: []string{"hybrid-fig1"},
		Tests: []string{"internal/forms.TestAngularSphere"}},
	{Label: "Theorem 3.5", What: "Largest relative error of the angular hybrid", Items: []string{"hybrid-fig1"},
		Tests: []string{"internal/forms.TestAngularBound", "internal/forms.TestAngularLimits"}},
	{Label: "Fig 2", What: "Pointwise estimates at two lengths", Items: []string{"hybrid-fig5"},
		Why: "Part of Fig 5, whose page has all lengths."},
	{Label: "Table 1", What: "MSE on wine and Boston against quasi-Monte Carlo", Items: []string{"hybrid-table1"}},
	{Label: "Fig 3", What: "Distances of softmax distributions, Penn Treebank", Items: []string{"hybrid-table4"}},
	{Label: "Table 2", What: "LibriSpeech: word error rates of hybrids", Run: &lab.Run{Command: "training lab speech",
		Results: "Speech"},
		Why: "17 layers on LibriSpeech need a TPU pod; in their place a Conformer with CTC on joined spoken " +
			"digits (FSDD)."},
	{Label: "Fig 4 left", What: "Stepping stones: attention policies by evolution strategies",
		Items: []string{"hybrid-fig4"},
		Why: "The quadruped and its simulator are not public; in their place a planar walker of our own with the " +
			"paper's stones " +
			"and gaps."},
	{Label: "Fig 4 right", What: "Bi-manual sweeping", Why: "Robot, simulator and demonstrations are private, and " +
		"images of " +
		"500 × 500 × 3 need a large model; nothing comparable was run in its place."},
	{Label: "Theorem D.1", What: "MSE of the angular hybrid", Items: []string{"hybrid-fig5"},
		Tests: []string{"theory.TestOfHybridsAgainstGolden"}},
	{Label: "Theorem F.1", What: "MSE of the normalized Gaussian hybrid",
		Tests: []string{"theory.TestOfHybridsAgainstGolden"}},
	{Label: "Theorem F.2", What: "The same for inputs of one length", Items: []string{"hybrid-fig5"},
		Tests: []string{"theory.TestOfHybridsAgainstGolden"}},
	{Label: "Fig 5", What: "Pointwise estimates at three lengths", Items: []string{"hybrid-fig5"}},
	{Label: "Fig 6", What: "MSE on clustered data", Items: []string{"hybrid-table3"}},
	{Label: "Definition H.1", What: "Gaussian mixtures for clusters",
		Tests: []string{"randfeat.TestEveryFamilyWithEveryCoupling"}},
	{Label: "Definition H.2", What: "Zero-one mixtures for clusters", Items: []string{"hybrid-table3"}},
	{Label: "Table 3", What: "The numbers of Fig 6", Items: []string{"hybrid-table3"}},
	{Label: "Table 4", What: "The numbers of Fig 3", Items: []string{"hybrid-table4"}},
	{Label: "Fig 7", What: "Lengths of keys and queries, Penn Treebank", Items: []string{"hybrid-fig7"}},
	{Label: "Fig 8", What: "Distances of softmax distributions, WikiText-2", Items: []string{"hybrid-fig8"}},
	{Label: "Table 5", What: "The numbers of Fig 8", Items: []string{"hybrid-fig8"}},
	{Label: "Fig 9", What: "Lengths of keys and queries, WikiText-2", Items: []string{"hybrid-fig9"}},
	{Label: "Fig 10", What: "Perplexity of LSTMs trained by softmax sampling",
		Run: &lab.Run{Command: "training lab -parts curves words ptb",
			Results: "Negatives by sampler: Hybrid, Figure 10 in small"},
		Why: "300 steps instead of 80 epochs: the paper's tie of all estimators is neither seen nor excluded."},
	{Label: "Appendix L", What: "Cost of hybrid features",
		Why: "Timed once, float32, one core, n = 8: at equal output size the angular hybrid with m = 4 to 64 takes 7.0 to " +
			"2.3 times the time of positive features at d = 16, 3.5 to 1.1 times at d = 64, 2.2 to 0.6 times at d = 128. " +
			"Its smaller matrices pay from d = 128 and m = 16 on."},
	{Label: "Fig 11", What: "A camera image of bi-manual sweeping", Why: "A photograph; see Fig 4 right."},
}

var orfContents = []lab.Entry{
	{Label: "Theorem 1", What: "Mean and variance of random Fourier features", Items: []string{"orf-fig4"},
		Tests: []string{"randfeat.TestEveryFamilyWithEveryCoupling"}},
	{Label: "Theorem 2", What: "Mean of orthogonal features: a Bessel function", Items: []string{"orf-fig1"},
		Tests: []string{"randfeat.TestORFPrime"}},
	{Label: "Proposition 3", What: "Exponential bounds of the mean", Items: []string{"orf-fig2"},
		Tests: []string{"internal/forms.TestORFBounds"}},
	{Label: "Theorem 4", What: "Variance of orthogonal features", Items: []string{"orf-fig1", "orf-fig4"},
		Tests: []string{"internal/forms.TestORFPrimeReference"}},
	{Label: "Remark 5", What: "The variance for one projection, and its bounds (12)",
		Tests: []string{"internal/forms.TestORFVarianceSeries", "internal/forms.TestORFBounds"},
		Why:   "The bounds hold in half of the printed range; the test also checks that they fail in the rest."},
	{Label: "Fig 1", What: "Closed forms against simulation", Items: []string{"orf-fig1"}},
	{Label: "Proposition 6", What: "Where orthogonal features have less variance", Items: []string{"orf-fig2"},
		Tests: []string{"internal/forms.TestORFBounds"}},
	{Label: "Fig 2", What: "The mean and its bounds", Items: []string{"orf-fig2"}},
	{Label: "Fig 3", What: "Variances over the distance", Items: []string{"orf-fig2"}},
	{Label: "Table 1", What: "Sizes of the four data sets", Items: []string{"orf-fig4"}},
	{Label: "Fig 4", What: "Errors of Gram matrices of four real sets", Items: []string{"orf-fig4"},
		Why: "Three of four: the ovarian cancer set (216 × 100) comes with MATLAB, no freely licensed copy was " +
			"found, and nothing was " +
			"run in its place."},
	{Label: "Remark 7", What: "The lower bound of Proposition 3 for z ≤ √d",
		Tests: []string{"internal/forms.TestORFBounds"}},
}

var simplexContents = []lab.Entry{
	{Label: "Fig 1", What: "Sketch: which coupling has which error", Items: []string{"simplex-fig6"},
		Why: "A drawing without numbers; the order it shows is measured in Fig 6."},
	{Label: "Fig 2", What: "Sketch of couplings in few dimensions", Tests: []string{"coupling.TestAngles"},
		Why: "A drawing without numbers; the angles it shows are tested."},
	{Label: "Theorem 3.2", What: "The MSE grows with the conformity", Items: []string{"simplex-fig4", "simplex-fig6"},
		Tests: []string{"internal/forms.TestCoupledReference"}},
	{Label: "Corollary 3.3", What: "SimRFs beat ORFs", Items: []string{"simplex-fig6"},
		Tests: []string{"internal/forms.TestRelMSEOrder"}},
	{Label: "Theorem 3.4", What: "SimRFs are the best weight-independent coupling", Items: []string{"simplex-fig4"},
		Tests: []string{"coupling.TestOptimisedIsStationary"}},
	{Label: "Fig 3", What: "Sketch of SimRFs and SimRFs+", Tests: []string{"coupling.TestSimplexPlusSumsToZero"},
		Why: "A drawing without numbers; what it shows is tested."},
	{Label: "Fig 4", What: "Conformity of five couplings", Items: []string{"simplex-fig4"}},
	{Label: "Lemma 4.1", What: "Conformity of IIDRFs", Items: []string{"simplex-fig5"},
		Tests: []string{"internal/forms.TestPairNorm"}},
	{Label: "Lemma 4.2", What: "Density of |w_i + w_j| at a fixed angle", Items: []string{"simplex-fig5"},
		Tests: []string{"internal/forms.TestPairNorm"}},
	{Label: "Theorem 4.3", What: "Conformity of ORFs and SimRFs", Items: []string{"simplex-fig4"},
		Tests: []string{"internal/forms.TestCoupledReference"}},
	{Label: "Corollary 4.4", What: "ORFs beat IIDRFs", Items: []string{"simplex-fig6"},
		Tests: []string{"internal/forms.TestRelMSEOrder"}},
	{Label: "Fig 5", What: "Densities of |w_i + w_j|", Items: []string{"simplex-fig5"}},
	{Label: "Theorem 4.5", What: "Orthogonality gap of Fourier features",
		Tests: []string{"internal/forms.TestCoupledReference"}},
	{Label: "Corollary 4.6", What: "Its asymptotic ratio", Tests: []string{"internal/forms.TestRFFAsymptotics"}},
	{Label: "Table 1", What: "Time of couplings and their fast variants by dimension",
		Items: []string{"simplex-table1"}},
	{Label: "Fig 6", What: "MSE ratios over |x+y|", Items: []string{"simplex-fig6"}},
	{Label: "Fig 7", What: "Errors of Gram matrices over the number of features", Items: []string{"simplex-fig7"}},
	{Label: "Fig 8", What: "Classification over the number of features", Items: []string{"simplex-fig8"}},
	{Label: "Table 2", What: "Classification with SimRFs and SimRFs+", Items: []string{"simplex-fig8"}},
	{Label: "Fig 9", What: "ViTs with SimRFs and ORFs on four image sets",
		Run: &lab.Run{Command: "training lab fashion_mnist",
			Results: "Vision Transformers on fashion_mnist: test accuracy"},
		Why: "ImageNet, I-Naturalist and Places365 need TPUs; of the four sets Fashion-MNIST is run, and MNIST."},
	{Label: "Lemma A.1", What: "SimRFs are optimal for equal norms", Items: []string{"simplex-fig4"},
		Tests: []string{"coupling.TestOptimisedIsStationary", "coupling.TestSimplexPlusOnTheSphereIsSimplex"}},
	{Label: "Fig 10", What: "Choice of σ", Items: []string{"simplex-fig10"}},
	{Label: "Algorithm 1", What: "Products with the simplex matrix in O(d)", Items: []string{"simplex-table1"},
		Tests: []string{"coupling.TestFastSimplex", "coupling.TestFastEqualsDense"}},
	{Label: "Table 3", What: "Classification with fast couplings", Items: []string{"simplex-table3"}},
}

var darkContents = []lab.Entry{
	{Label: "Lemma 2.1", What: "Positive features are unbiased",
		Tests: []string{"randfeat.TestEveryFamilyWithEveryCoupling"}},
	{Label: "Fig 1", What: "Sketch: the order of products makes attention linear",
		Tests: []string{"attention/linear.TestLinearMemory"},
		Why:   "A drawing without numbers; what it shows is tested, and bench/RESULTS.md has times."},
	{Label: "Lemma 3.1", What: "The proposal of least variance", Items: []string{"dark-theorem"}},
	{Label: "Theorem 3.2", What: "It is Gaussian for Gaussian rows", Items: []string{"dark-theorem", "dark-variance"},
		Tests: []string{"internal/forms.TestDarkOrder"}},
	{Label: "Proposition 4.1", What: "Drawing from Σ equals importance weights", Items: []string{"dark-theorem"},
		Tests: []string{"family.TestFormImportance"}},
	{Label: "Fig 2 pretraining", What: "Gemma 2B trained on C4 with six kinds of attention",
		Run: &lab.Run{Command: "training lab pretrain", Results: "DARKFormer, Figure 2: decoders trained from nothing"},
		Why: "2 billion parameters are out of reach; in their place small decoders of characters."},
	{Label: "Fig 2 finetuning", What: "Gemma 2B fine-tuned with six kinds of attention",
		Run: &lab.Run{Command: "training lab darkformer",
			Results: "DARKFormer, Figures 2–5: held-out accuracy of the " +
				"next character"},
		Why: "2 billion parameters are out of reach; in their place a small decoder of characters, and SmolLM2 with 135 " +
			"million (training lab language: DARK and Performer not told apart)."},
	{Label: "Fig 3", What: "Performer closes the gap after long fine-tuning",
		Run: &lab.Run{Command: "training lab darkformer",
			Results: "DARKFormer, Figures 2–5: held-out accuracy of the " +
				"next character"}},
	{Label: "Fig 4", What: "Fine-tuning of queries, keys and values alone",
		Run: &lab.Run{Command: "training lab darkformer",
			Results: "DARKFormer, Figures 2–5: held-out accuracy of the " +
				"next character"},
		Why: "In place of Gemma a small decoder of characters, and SmolLM2 (training lab language)."},
	{Label: "Fig 5", What: "Stability over learning rates",
		Run: &lab.Run{Command: "training lab -parts sweep darkformer",
			Results: "DARKFormer, Figures 2–5: held-out accuracy of the next character"}},
	{Label: "Proposition C.1", What: "Whitening makes rows isotropic", Tests: []string{"theory.TestOfDARK",
		"family.TestFitDARKBase"}},
}
