// Polynomials of the special functions (record/bessel.cpp, normal.cpp, gamma.cpp), coefficients by ascending degree.
// Made by tools/fit_special, which says how.
#pragma once

namespace weft::coefficients {

// clang-format off
// sqrt(x) exp(-x) I0(x), t = 16 / x - 1; error 7e-17.
inline constexpr double i0_large[] = {
    0x1.9bd428ad249a5p-2, 0x1.b87969bb93b75p-9, 0x1.1daa72b5e650cp-13, 0x1.75e5ee71edd14p-17, 0x1.8e513a1d5e52bp-20,
    0x1.3f49a6bcfc2d9p-22, 0x1.7d0f75812d9bcp-24, 0x1.51ced7b713adcp-25, 0x1.7224b1828e507p-26, 0x1.03896efb09a41p-27,
    -0x1.ce768f00b5374p-28, -0x1.cc90f59ec1228p-27, -0x1.77cc956faaa2fp-28, 0x1.0317d4c7b215ap-27,
    0x1.047454ffcb608p-27, -0x1.df1549cddfaf8p-29, -0x1.a9411c5b0ad08p-28, 0x1.9bbbfe31d81e9p-30,
    0x1.0ab5ef575d285p-28, -0x1.31c908a5dd531p-31, -0x1.e8fd992032bedp-30, 0x1.42a55974d41b8p-33,
    0x1.1ce14787c5bdep-31, -0x1.52109c25bd9ecp-36, -0x1.36e52c10032d7p-34};
// sqrt(x) exp(-x) I1(x), t = 16 / x - 1; error 2e-17.
inline constexpr double i1_large[] = {
    0x1.8ebe783a84030p-2, -0x1.3f796198ee628p-7, -0x1.cbc54df1ece76p-13, -0x1.f89c23066d278p-17,
    -0x1.ec8e101744487p-20, -0x1.76137e6905189p-22, -0x1.ad8db6e1fecbbp-24, -0x1.727a73a8063a8p-25,
    -0x1.9180f82a1d429p-26, -0x1.21895bb7ba33fp-27, 0x1.cd81846fb3ff1p-28, 0x1.e20e7d69649cap-27,
    0x1.9f203cf2783b7p-28, -0x1.0630cddd4e099p-27, -0x1.1465ce7d29637p-27, 0x1.d4345a69bfc30p-29,
    0x1.bdc8daed57db9p-28, -0x1.858c7591014bdp-30, -0x1.162964d5f91dbp-28, 0x1.1aee882806184p-31,
    0x1.fce6b32270b52p-30, -0x1.272ae05110368p-33, -0x1.2839623e2341cp-31, 0x1.33e83e12ca3b4p-36,
    0x1.432b0a4121172p-34};
// Squares of the first zeros of J0, each as a sum of two.
inline constexpr double j0_roots[] = {
    0x1.721fb80462bbbp+2, 0x1.db60c816c15d3p-52, 0x1.e78a4a621dd6fp+4, -0x1.10d7c5048826bp-52};
// Squares of the first zeros of J1, each as a sum of two.
inline constexpr double j1_roots[] = {
    0x1.d5d2b4189822cp+3, -0x1.c6a0d245172bap-54, 0x1.89bf66072a432p+5, 0x1.25355661cb79cp-51};
// J0(x) / ((z - z1) (z - z2)), z = x^2, t = z / 32 - 1; error 4e-17.
inline constexpr double j0_small[] = {
    0x1.2bc29174dd587p-10, -0x1.15d87e4b8d5b1p-9, 0x1.99e65104a68d3p-10, -0x1.5059ea69f58a4p-11, 0x1.6409a6fd7b18ap-13,
    -0x1.08db6a2de263fp-15, 0x1.250f53798032fp-18, -0x1.f633ea85ead22p-22, 0x1.577f683baf78fp-25,
    -0x1.801f7f33955cfp-29, 0x1.65ec7d3757f15p-33, -0x1.1a4d977497bcfp-37, 0x1.7df1c9ec3f494p-42,
    -0x1.c0368f7e22d3fp-47, 0x1.cca49fc88438ap-52, -0x1.a21d145f8d751p-57, 0x1.51aa3294856dep-62,
    -0x1.e871b9af72653p-68, 0x1.3e3f04d4c36cep-73, -0x1.780f82129e7cap-79, 0x1.93b3d765a5726p-85};
// J1(x) / (x (z - z1) (z - z2)), z = x^2, t = z / 32 - 1; error 6e-17.
inline constexpr double j1_small[] = {
    0x1.98ec1eee7c01ap-13, -0x1.1adb1329ed86fp-12, 0x1.4c9bd11c0aa3bp-13, -0x1.c5a7fc38dd1d3p-15,
    0x1.9ac7788fbda1dp-17, -0x1.0af8bb9889ba1p-19, 0x1.06438a6958c31p-22, -0x1.941a82675761ep-26,
    0x1.f62979d67044bp-30, -0x1.0137e01b6d793p-33, 0x1.ba3fb2eea4c7fp-38, -0x1.43c20bf860021p-42,
    0x1.98ae518e25941p-47, -0x1.c179ab5f85d03p-52, 0x1.b2a6e4c2f4d95p-57, -0x1.7484cb673745ep-62,
    0x1.1cf3b931da6b0p-67, -0x1.8783e1fc7ccb1p-73, 0x1.e5d08296fe691p-79, -0x1.11eb755ad4bcep-84,
    0x1.193db236399c1p-90};
// Y0(x) - 2 / pi log(x) J0(x), t = x^2 / 32 - 1; error 2e-16.
inline constexpr double y0_small[] = {
    -0x1.876cb72f1c7ebp-2, -0x1.a828bfbfdc936p-1, 0x1.a5a81d661f788p+0, 0x1.272bb3b608b42p-3, -0x1.13da2b14a486ep+0,
    0x1.5827981135a27p-1, -0x1.c06cc647f6aa5p-3, 0x1.7bd6bf2ce921bp-5, -0x1.cc706012361fcp-8, 0x1.a6a8c6c983768p-11,
    -0x1.31537c5ccd741p-14, 0x1.651b8eda1dfecp-18, -0x1.5995ab1ed85cbp-22, 0x1.1998aaae8e87dp-26,
    -0x1.88011a9b87e8ap-31, 0x1.d7cb2d91108d6p-36, -0x1.effd882078ad6p-41, 0x1.cb86044c55c72p-46,
    -0x1.7a1c9b6bed8bap-51, 0x1.16362f51ac0b7p-56, -0x1.70550172e0b1ep-62, 0x1.b9c5f0b6dca13p-68,
    -0x1.e0c8df86679b4p-74};
// (Y1(x) - 2 / pi (log(x) J1(x) - 1 / x)) / x, t = x^2 / 32 - 1; error 8e-17.
inline constexpr double y1_small[] = {
    0x1.21d516f81acf6p-4, -0x1.f26fddceafd0ep-3, 0x1.7edab31507d03p-6, 0x1.e16d7a1d07b70p-3, -0x1.923952d7c42a6p-3,
    0x1.41bb6917b15dbp-4, -0x1.4198f92a31f2bp-6, 0x1.c097bb98fdbc5p-9, -0x1.d1604f9ccacf4p-12, 0x1.76c164b855154p-15,
    -0x1.e35169de5c743p-19, 0x1.ff34fc7731957p-23, -0x1.c3f1d8ed88d9fp-27, 0x1.532f684844f16p-31,
    -0x1.b5d40e8fdd5e7p-36, 0x1.eb63f13e7b0d7p-41, -0x1.e411fefa4419ep-46, 0x1.a601ac610e57dp-51,
    -0x1.47f0d65bd51e0p-56, 0x1.c93dcbb012421p-62, -0x1.1f99f5490a2a2p-67, 0x1.4890be925f2e3p-73,
    -0x1.5571922455accp-79};
// P of Hankel's J0 = sqrt(2 / (pi x)) (P cos(u) - Q sin(u)), t = 128 / x^2 - 1; error 1e-17.
inline constexpr double p0[] = {
    0x1.ffb8dd328503dp-1, -0x1.193600c1deb24p-11, 0x1.9be00160e8efap-18, -0x1.b8d2d6f78975cp-23, 0x1.b7ef11b353c63p-27,
    -0x1.4d2f30ef6ca83p-30, 0x1.54df50d4037c8p-33, -0x1.b5cb66423ff8ep-36, 0x1.4fd2ac4222e9cp-38,
    -0x1.29503e0760042p-40, 0x1.2c6b4c14be94cp-42, -0x1.4cb3236e5f54ap-44, 0x1.3fcce8bf4bfffp-46,
    -0x1.801beee89914bp-48, 0x1.420871ad65d39p-48, -0x1.f1270e181149fp-50};
// x / 8 times Q of J0, t = 128 / x^2 - 1; error 3e-17.
inline constexpr double q0[] = {
    -0x1.fdb5c0b2f3d5bp-7, 0x1.1e9a6138fee37p-14, -0x1.8c8435284bfffp-20, 0x1.3135a89eac43cp-24,
    -0x1.858d1b7cadd6fp-28, 0x1.61a55ba63fdeep-31, -0x1.a0835af0753aap-34, 0x1.2ba595b6cc591p-36,
    -0x1.f9076155db4a3p-39, 0x1.e444704637c15p-41, -0x1.079e2dd2743a5p-42, 0x1.36c36974db323p-44,
    -0x1.28b12201b3229p-46, 0x1.6ff999ac45e36p-48, -0x1.6c7842f8c83a8p-48, 0x1.24f4798680cd2p-49};
// P of Hankel's J1 = sqrt(2 / (pi x)) (P cos(u) - Q sin(u)), t = 128 / x^2 - 1; error 2e-17.
inline constexpr double p1[] = {
    0x1.003b716033732p+0, 0x1.d73b8ea3c1238p-11, -0x1.0b1541bfc3f6ap-17, 0x1.07762641d0205p-22, -0x1.f96170c79bbadp-27,
    0x1.75eaf6c410f68p-30, -0x1.78ba6da33b5f4p-33, 0x1.dea2a18d66de7p-36, -0x1.6c34b40168bd4p-38,
    0x1.406f1c02c3513p-40, -0x1.42141714a6d88p-42, 0x1.6332811268259p-44, -0x1.553dc071127c9p-46,
    0x1.98ec74eefdf04p-48, -0x1.53f6709baa104p-48, 0x1.05da5f02213e4p-49};
// x / 8 times Q of J1, t = 128 / x^2 - 1; error 2e-17.
inline constexpr double q1[] = {
    0x1.7f323705062fbp-5, -0x1.938da0a0a698fp-14, 0x1.e8e009ca92529p-20, -0x1.6423127936b6bp-24, 0x1.b9302a5483622p-28,
    -0x1.8922dd989b9cbp-31, 0x1.c92e5da63f5ffp-34, -0x1.45e2ecc3da930p-36, 0x1.10b6d80edd55dp-38,
    -0x1.0411351bfc4ddp-40, 0x1.19c832637c619p-42, -0x1.4aeae364097ddp-44, 0x1.3c11a5323ea94p-46,
    -0x1.8745d51c238afp-48, 0x1.801439c284428p-48, -0x1.341b3ac36783ap-49};
// (1 + 2 x) exp(x^2) erfc(x), t = 1 - 9 / (x + 4); error 4e-17.
inline constexpr double erfcx_large[] = {
    0x1.37be87d05ea02p+0, -0x1.e880034711d03p-4, 0x1.9ae5a8104586fp-6, 0x1.7d305ea1e97cap-6, -0x1.30f1a4b7a339fp-5,
    0x1.07a7e259de831p-5, -0x1.573594bc3b003p-6, 0x1.655d9cc030064p-7, -0x1.28d4286014ac1p-8, 0x1.7417c7ab4c92bp-10,
    -0x1.1f3f65b73a671p-12, -0x1.e3c6c7158d81cp-18, 0x1.b212366303c74p-16, -0x1.f4e9aae8e2d22p-18,
    -0x1.9a38e70ff29e8p-22, 0x1.c98d73068d2dfp-21, -0x1.43d0490ef9629p-23, -0x1.161737f4ffc46p-24,
    0x1.ec80ee5777675p-26, 0x1.e0e8d13da1518p-29, -0x1.124983680531dp-28, -0x1.5ff6c71a76fb9p-35,
    0x1.188aee1e6b164p-31, -0x1.72091f5e669edp-36, -0x1.f9c564f9682cap-35, 0x1.4deb157fe57f7p-39,
    0x1.216d12be34cb0p-38};
// (1 + 2 x)^2 (2 / sqrt(pi) - 2 x exp(x^2) erfc(x)), of the same t; error 8e-17.
inline constexpr double erfcx_slope[] = {
    0x1.4a66f9b7874e5p+1, -0x1.694dc2ca5c9e7p-2, -0x1.b09bd1b1b8c7bp-4, 0x1.31b7a19aa5ccbp-2, -0x1.21d0a23916cc7p-2,
    0x1.63bbb7273fd23p-3, -0x1.0dedf5ec29901p-4, 0x1.29a577a8e2730p-9, 0x1.30c0b5cdead5ap-6, -0x1.0b57aa41c5a56p-6,
    0x1.0ee89bda46802p-7, -0x1.4f83d8ccb1b2fp-9, 0x1.02a2e3b10ebffp-12, 0x1.8e60a69c43375p-13, -0x1.8b4254d1f0e62p-14,
    0x1.9e4a833d1043ap-18, 0x1.4cab6df234aa7p-17, -0x1.a32f2f1766351p-19, -0x1.5d38c0e0d68a3p-21,
    0x1.1da011b4f5f59p-21, 0x1.37c6e7c64a04fp-27, -0x1.3aab2bebe3fcdp-24, 0x1.a0d77d7be5bf8p-28, 0x1.22c4d68bc1013p-27,
    -0x1.4eb08745e83dbp-30, -0x1.4edd216cc6c0bp-31, 0x1.db2c1f5bf65ebp-34};
// C_0 by powers of eta.
inline constexpr double temme_0[] = {
    -0x1.5555555555555p-2, 0x1.5555555555555p-4, -0x1.e573ac901e574p-7, 0x1.2f684bda12f68p-10, 0x1.71de3a556c734p-12,
    -0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15, -0x1.255370652afc1p-19, -0x1.f1b22f594c6b5p-20,
    0x1.bd6d21e4b4109p-21, -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28, 0x1.6097d55c37c1cp-27,
    -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31, -0x1.c0d9b6edf2b0bp-36, -0x1.0070a87340428p-34,
    0x1.ac9475c463659p-36};
// C_1 by powers of eta.
inline constexpr double temme_1[] = {
    -0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9, 0x1.5ac056b015ac0p-9, -0x1.0394f6f09e723p-10, 0x1.af83440e53dbcp-13,
    -0x1.af83440e53dbcp-22, -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17, -0x1.b0bdfcc629cbap-20,
    0x1.3f59230a8357cp-28, 0x1.280f2cde3f847p-23, -0x1.ee23d0cba8aeep-25, 0x1.9aa7a30de114cp-27,
    -0x1.349fbca3a377bp-36, -0x1.1564ecff73d58p-30, 0x1.c9b434bf3c34ep-32};
// C_2 by powers of eta.
inline constexpr double temme_2[] = {
    0x1.0ee643b990ee6p-8, -0x1.5f7268edab4c8p-9, 0x1.948b0fcd6e9e0p-11, 0x1.0db20a88f4696p-19, -0x1.c253efaa1a932p-14,
    0x1.bbf43daf4fe53p-15, -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25, 0x1.7058929663937p-20,
    -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23, -0x1.c24bd0e740a6cp-33, -0x1.e437343a46f5dp-27,
    0x1.ac0d455e25360p-28};
// C_3 by powers of eta.
inline constexpr double temme_3[] = {
    0x1.547d93b34e2b6p-11, 0x1.e13ce465fa859p-13, -0x1.ebfb188b7ca00p-12, 0x1.18b9b5bf2d984p-12,
    -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22, 0x1.73df462204ef4p-17, -0x1.7cd6f27b3f020p-18,
    0x1.7e0201539310ep-20, -0x1.ea23269c140a7p-36, -0x1.6c2dcffbefeefp-23, 0x1.5bde8ef4c4dc7p-24};
// C_4 by powers of eta.
inline constexpr double temme_4[] = {
    -0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11, -0x1.3999a85a4237ap-12, -0x1.88f2ae1def9d0p-20,
    0x1.16908b48ce058p-14, -0x1.4ce3fd902bcadp-15, 0x1.7db4c02846e81p-17, 0x1.13b3c5b7cb45ep-32,
    -0x1.c71c074985d3fp-20, 0x1.de37d9f09164cp-21};
// C_5 by powers of eta.
inline constexpr double temme_5[] = {
    -0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12, -0x1.a2042c5148e27p-13,
    0x1.1d1e9cb24760bp-14, 0x1.30bdcf208080ep-23, -0x1.c823fc1b3cc36p-17, 0x1.0d0e229150428p-17};
// C_6 by powers of eta.
inline constexpr double temme_6[] = {
    0x1.168ef1b0931c8p-11, -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12, 0x1.a8411da6cab49p-21,
    -0x1.5600945495b37p-14, 0x1.d6bdf83130dc1p-15};
// clang-format on

}  // namespace weft::coefficients
