module {
  tt.func public @every(%1: !tt.ptr<bf16> {tt.divisibility = 16 : i32}, %2: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %3: !tt.ptr<f32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %4 = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %5 = tt.get_program_id x : i32
    %6 = arith.constant 16 : i32
    %7 = arith.muli %5, %6 : i32
    %8 = tt.splat %7 : i32 -> tensor<16xi32>
    %9 = arith.addi %4, %8 : tensor<16xi32>
    %10 = arith.constant 20 : i32
    %11 = tt.splat %10 : i32 -> tensor<16xi32>
    %12 = arith.cmpi slt, %9, %11 : tensor<16xi32>
    %13 = arith.constant -1 : i32
    %14 = tt.splat %13 : i32 -> tensor<16xi32>
    %15 = arith.cmpi slt, %14, %9 : tensor<16xi32>
    %16 = arith.andi %12, %15 : tensor<16xi1>
    %17 = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %18 = arith.constant dense<0.00000000e+00> : tensor<16x16xf32>
    %19 = arith.constant dense<-1.00000000e+09> : tensor<16xf32>
    %20 = arith.constant 32 : i32
    %21 = arith.constant 2 : i32
    %22 = arith.divsi %20, %21 : i32
    %23 = arith.constant 17 : i32
    %24 = arith.remsi %22, %23 : i32
    %25 = arith.constant 0 : i32
    %26 = arith.constant 16 : i32
    %29:2 = scf.for %27 = %25 to %24 step %26 iter_args(%28 = %18, %30 = %19) -> (tensor<16x16xf32>, tensor<16xf32>)  : i32 {
      %32 = arith.extsi %27 : i32 to i64
      %33 = tt.addptr %1, %32 : !tt.ptr<bf16>, i64
      %34 = tt.expand_dims %9 {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
      %35 = arith.constant 16 : i32
      %36 = tt.splat %35 : i32 -> tensor<16x1xi32>
      %37 = arith.muli %34, %36 : tensor<16x1xi32>
      %38 = tt.expand_dims %17 {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
      %39 = tt.broadcast %37 : tensor<16x1xi32> -> tensor<16x16xi32>
      %40 = tt.broadcast %38 : tensor<1x16xi32> -> tensor<16x16xi32>
      %41 = arith.addi %39, %40 : tensor<16x16xi32>
      %42 = tt.splat %33 : !tt.ptr<bf16> -> tensor<16x16x!tt.ptr<bf16>>
      %43 = tt.addptr %42, %41 : tensor<16x16x!tt.ptr<bf16>>, tensor<16x16xi32>
      %44 = tt.expand_dims %16 {axis = 1 : i32} : tensor<16xi1> -> tensor<16x1xi1>
      %45 = tt.broadcast %44 : tensor<16x1xi1> -> tensor<16x16xi1>
      %46 = arith.constant dense<0.00000000e+00> : tensor<16x16xbf16>
      %47 = tt.load %43, %45, %46 : tensor<16x16x!tt.ptr<bf16>>
      %48 = arith.extf %47 : tensor<16x16xbf16> to tensor<16x16xf32>
      %49 = tt.trans %47 {order = array<i32: 1, 0>} : tensor<16x16xbf16> -> tensor<16x16xbf16>
      %50 = tt.dot %47, %49, %28, inputPrecision = ieee : tensor<16x16xbf16> * tensor<16x16xbf16> -> tensor<16x16xf32>
      %51 = arith.constant -1.00000000e+02 : f32
      %52 = tt.splat %51 : f32 -> tensor<16x16xf32>
      %53 = arith.cmpf ogt, %50, %52 : tensor<16x16xf32>
      %54 = arith.constant 0.00000000e+00 : f32
      %55 = tt.splat %54 : f32 -> tensor<16x16xf32>
      %56 = arith.select %53, %50, %55 : tensor<16x16xi1>, tensor<16x16xf32>
      %57 = "tt.reduce"(%48) <{axis = 1 : i32}> ({
      ^bb0(%a: f32, %b: f32):
        %c = arith.maxnumf %a, %b : f32
        tt.reduce.return %c : f32
      }) : (tensor<16x16xf32>) -> tensor<16xf32>
      %58 = arith.maxnumf %57, %30 : tensor<16xf32>
      scf.yield %56, %58 : tensor<16x16xf32>, tensor<16xf32>
    }
    %59 = tt.splat %2 : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %60 = tt.addptr %59, %17 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %61 = tt.load %60 : tensor<16x!tt.ptr<f32>>
    %62 = arith.constant 1.00000000e+00 : f32
    %63 = tt.splat %62 : f32 -> tensor<16xf32>
    %64 = arith.addf %61, %63 : tensor<16xf32>
    %65 = math.log2 %64 : tensor<16xf32>
    %66 = math.exp2 %65 : tensor<16xf32>
    %67 = tt.expand_dims %66 {axis = 0 : i32} : tensor<16xf32> -> tensor<1x16xf32>
    %68 = tt.broadcast %67 : tensor<1x16xf32> -> tensor<16x16xf32>
    %69 = arith.mulf %29#0, %68 : tensor<16x16xf32>
    %70 = tt.expand_dims %29#1 {axis = 1 : i32} : tensor<16xf32> -> tensor<16x1xf32>
    %71 = tt.broadcast %70 : tensor<16x1xf32> -> tensor<16x16xf32>
    %72 = arith.subf %69, %71 : tensor<16x16xf32>
    %73 = arith.constant 1.00000000e+06 : f32
    %74 = tt.splat %73 : f32 -> tensor<16x16xf32>
    %75 = arith.minnumf %72, %74 : tensor<16x16xf32>
    %76 = "tt.reduce"(%75) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<16x16xf32>) -> tensor<16xf32>
    %77 = arith.constant 2.00000000e+00 : f32
    %78 = tt.splat %77 : f32 -> tensor<16xf32>
    %79 = arith.divf %76, %78 : tensor<16xf32>
    %80 = arith.cmpi eq, %17, %17 : tensor<16xi32>
    %81 = arith.uitofp %80 : tensor<16xi1> to tensor<16xf32>
    %82 = arith.cmpi sle, %17, %17 : tensor<16xi32>
    %83 = arith.uitofp %82 : tensor<16xi1> to tensor<16xf32>
    %84 = arith.mulf %81, %83 : tensor<16xf32>
    %85 = tt.splat %3 : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %86 = tt.addptr %85, %9 : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %87 = arith.mulf %79, %84 : tensor<16xf32>
    tt.store %86, %87, %16 : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
