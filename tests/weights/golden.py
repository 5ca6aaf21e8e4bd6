#!/usr/bin/env python3
"""golden.py MINILM SILERO SILERO_JIT: writes minilm.json and silero.json beside this file: what Hugging Face's tokenizers, PyTorch with
transformers, and PyTorch with Silero's own TorchScript make of the same inputs. MINILM and SILERO are the folders that
examples/fetch/weights makes; SILERO_JIT is silero_vad.jit of the package silero-vad 6.2.3. Needs torch and transformers."""
import json
import random
import sys
import unicodedata
import wave
from pathlib import Path

import numpy
import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

here = Path(__file__).resolve().parent
folder, silero, jit = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
ODD = ["", " ", "Hello, World!", "naïve café Ångström", "ÀÉÎÕÜ àéîõü ñ ç", "東京 is 首都 of 日本", "日本語テキスト", "한국어 텍스트", "Ελληνικά ΣΊΣΥΦΟΣ",
       "Привет, МИР", "ЁЖ ёж й", "مرحبا بالعالم", "שָׁלוֹם", "हिन्दी भाषा", "ไทย", "tab\tnew\nline\r\nend", "a\u00a0b\u2003c\u3000d", "zero\u200bwidth\u200djoin",
       "soft\u00adhyphen", "\ufeffbom", "nul\u0000inside", "bad\ufffdmark", "\x01\x02control\x7f", "emoji 😀 👍🏽 👩‍👩‍👧", "€100 £5 ¥7 ₿", "1.5e-10 + 3,000",
       "don't won't I'm", "semi-colon; colon: dash—en–dash", "“quotes” ‘single’ «guillemets»", "…ellipsis·middle", "x_y-z/a\\b|c", "C++ C# .NET",
       "https://example.org/a?b=c&d=e#f", "user@example.com", "ﬁ ﬂ ligatures", "ⅷ Ⅷ ½ ² ™ ℃", "İstanbul ıŞIK ğ", "STRASSE straße ẞ", "ǅ ǆ Ǆ", "o\u0308 o\u0301\u0323 combining",
       "Zalgo t\u0335\u0322e\u0334x\u0337t", "antidisestablishmentarianism", "supercalifragilisticexpialidocious", "a" * 99, "b" * 100, "c" * 101, "ü" * 100, "ü" * 101,
       "pneumonoultramicroscopicsilicovolcanoconiosis" * 3, "!!!???", "...", "$$$ ~~~ ^^^ ```", "\u2028line\u2029paragraph", "\u0085next", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛", "𠀀𠀁 extension b",
       "㐀 extension a", "豈 compatibility", "ａｂｃ fullwidth １２３", "Tiếng Việt có dấu", "ħ ł ø đ", "ŁÓDŹ", "Ǆungla", "\u1e9b\u0323", "\u212b \u2126", "\ue000private", "\U000e0001tag",
       "१२३ ٤٥٦", "；：，。！？（）", "「引用」『書名』", "א״ב", "word\u2019s", "re‑hyphen", "100%", "#hashtag @name", "<html>&amp;</html>", "{json: [1, 2]}", "A.B.C.", "U.S.A", "e.g. i.e."]


def strings():
    random.seed(1)
    pieces = [chr(c) for c in range(32, 127)] + [chr(c) for c in (*range(0xC0, 0x250), *range(0x370, 0x400), *range(0x400, 0x460), *range(0x4E00, 0x4E40),
              *range(0x300, 0x320), *range(0x2000, 0x2070), *range(0x3040, 0x3060), *range(0xAC00, 0xAC20), *range(0x1F600, 0x1F610))]
    # Characters on which versions of Unicode differ are none of these.
    pieces = [piece for piece in pieces if unicodedata.category(piece) != "Cn"]
    words = "the cat sat running unbelievable tokenization embeddings of and café naive Zürich 2024 GPUs".split()
    made = [" ".join(random.choices(words, k=random.randint(1, 12))) for _ in range(60)]
    return ODD + made + ["".join(random.choices(pieces, k=random.randint(1, 40))) for _ in range(120)]


def small_tokenizer():
    """A vocabulary in this file, for where the published one is missing."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##believ", "##able", "able", "the", "cat", "##s", "run", "##ning", "a", "##a", "b", "##b", "!", ",", ".", "-",
              "cafe", "naive", "2", "##0", "0", "東", "京", "#", "i", "##i", "##st", "##an", "##bul", "ss", "##ss", "e", "##e", "σ", "##ς", "##σ"]
    tokens += [c for c in "cdfghjklmnopqrstuvwxyz"] + ["##" + c for c in "cdefghjklmnopqrstuvwxyz"]
    tokens = list(dict.fromkeys(tokens))
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return tokens, tokenizer


published = Tokenizer.from_file(str(folder / "tokenizer.json"))
published.no_padding()
published.enable_truncation(256)
vocabulary, small = small_tokenizer()
small.enable_truncation(256)
texts = strings()
sentences = ["That is a happy person", "That is a very happy person", "Today is a sunny day", "The train leaves at noon.", "Mix flour, water, salt and yeast.",
             "naïve café in Zürich, 東京", "x", "A much longer sentence, with many words, commas, and clauses, so that the padding of a batch is seen by all the others in it, "
             "and the mask must leave it out of every mean and of every attention."]
model = transformers.BertModel(transformers.BertConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=6,
                                                       num_attention_heads=12))
model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
model.eval()
rows = [published.encode(text).ids for text in sentences]
longest = max(map(len, rows))
mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
with torch.no_grad():
    hidden = model(tokens, attention_mask=mask).last_hidden_state
counted = mask.unsqueeze(-1).float()
embeddings = torch.nn.functional.normalize((hidden * counted).sum(1) / counted.sum(1), dim=1)
# A line for each entry.
parts = {
    "vocabulary": vocabulary,
    "texts": [{"text": text, "small": small.encode(text).ids, "published": published.encode(text).ids} for text in texts],
    "sentences": [{"text": text, "embedding": [round(float(x), 6) for x in row]} for text, row in zip(sentences, embeddings)]}
(here / "minilm.json").write_text("{" + ",\n".join(
    f'"{name}": [\n' + ",\n".join(map(json.dumps, entries)) + "]" for name, entries in parts.items()) + "}\n")

# The TorchScript has weights of another training run: it gets those of the safetensors file.
vad = torch.jit.load(jit).eval()
PLACES = {"conv1": "encoder.0.reparam_conv", "conv2": "encoder.1.reparam_conv", "conv3": "encoder.2.reparam_conv",
          "conv4": "encoder.3.reparam_conv", "lstm_cell": "decoder.rnn", "final_conv": "decoder.decoder.2"}
places = vad.state_dict()
for name, value in load_file(silero / "silero_vad_16k.safetensors").items():
    module, _, parameter = name.partition(".")
    place = "stft.forward_basis_buffer" if module == "stft_conv" else f"{PLACES[module]}.{parameter}"
    with torch.no_grad():
        places["_model." + place].copy_(value)
sound = wave.open(str(here / "speech.wav"))
samples = torch.from_numpy(numpy.frombuffer(sound.readframes(1 << 30), "<i2").astype("float32") / 32768)
padded = torch.nn.functional.pad(samples, (0, -len(samples) % 512))
vad.reset_states()
with torch.no_grad():
    probabilities = [vad(padded[i:i + 512], 16000).item() for i in range(0, len(padded), 512)]
sys.path.insert(0, str(Path(jit).resolve().parents[2]))
from silero_vad.utils_vad import get_speech_timestamps_from_probs  # noqa: E402
stretches = get_speech_timestamps_from_probs(probabilities, audio_length_samples=len(samples))
(here / "silero.json").write_text(json.dumps({"probabilities": [round(p, 6) for p in probabilities],
                                              "stretches": [[s["start"] / 16000, s["end"] / 16000] for s in stretches]}) + "\n")
print(len(texts), "texts,", len(sentences), "sentences,", len(probabilities), "windows,", len(stretches), "stretches")
