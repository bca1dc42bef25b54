// Spec, Box, Discrete: value types, picklable, equal by value.

#include "canter/base/spec.hpp"

#include "bindings.hpp"

namespace canter::python {
namespace {

py::tuple to_tuple(const Box& b) {
  return py::make_tuple(b.size, b.low, b.high, b.lows, b.highs);
}
py::tuple to_tuple(const Discrete& d) {
  return py::make_tuple(d.count);
}
py::tuple to_tuple(const ObservationGroup& g) {
  return py::make_tuple(g.name, g.first, g.size);
}

py::tuple to_tuple(const Spec& s) {
  py::list groups;
  for (const auto& g : s.groups) groups.append(to_tuple(g));
  py::object action =
      s.is_discrete() ? py::cast(std::get<Discrete>(s.action)) : py::cast(std::get<Box>(s.action));
  return py::make_tuple(s.observation_size, action, s.frame_skip, s.max_episode_steps, groups,
                        s.metrics, s.post_constraint, s.observation_lows, s.observation_highs,
                        s.step_seconds);
}

// an action space that keeps its promises: bounds are read by index
template <class Action>
Action checked(Action action) {
  check(Spec{.observation_size = 0, .action = action});
  return action;
}

Box to_box(const py::tuple& t) {
  return checked(Box{t[0].cast<int>(), t[1].cast<float>(), t[2].cast<float>(),
                     t[3].cast<std::vector<float>>(), t[4].cast<std::vector<float>>()});
}

Spec to_spec(const py::tuple& t) {
  Spec s;
  s.observation_size = t[0].cast<int>();
  s.action = t[1].cast<ActionSpec>();
  s.frame_skip = t[2].cast<int>();
  s.max_episode_steps = t[3].cast<int>();
  for (const auto& g : t[4].cast<py::list>()) {
    const auto fields = g.cast<py::tuple>();
    s.groups.push_back(
        {fields[0].cast<std::string>(), fields[1].cast<int>(), fields[2].cast<int>()});
  }
  s.metrics = t[5].cast<std::vector<std::string>>();
  s.post_constraint = t[6].cast<bool>();
  s.observation_lows = t[7].cast<std::vector<float>>();
  s.observation_highs = t[8].cast<std::vector<float>>();
  s.step_seconds = t[9].cast<double>();
  return s;
}

// a box by its bounds, however they were given; the others by the tuples that pickling uses
bool equal(const Box& a, const Box& b) {
  bool same = a.size == b.size;
  for (int i = 0; same && i < a.size; ++i)
    same = a.low_of(i) == b.low_of(i) && a.high_of(i) == b.high_of(i);
  return same;
}
bool equal(const Discrete& a, const Discrete& b) {
  return a.count == b.count;
}
bool equal(const Spec& a, const Spec& b) {
  return to_tuple(a).equal(to_tuple(b));
}

template <class T, class Class>
void def_equality(Class& cls) {
  cls.def("__eq__", [](const T& a, const py::object& b) {
    return py::isinstance<T>(b) && equal(a, py::cast<const T&>(b));
  });
  cls.attr("__hash__") = py::none();
}

// every bound written out: numpy.float32[size]
py::array_t<float> bounds(const Box& box, float (Box::*of)(int) const) {
  py::array_t<float> out(box.size);
  for (int i = 0; i < box.size; ++i) out.mutable_at(i) = (box.*of)(i);
  return out;
}

std::string to_repr(const Spec& s) {
  std::string text = "Spec(observation_size=" + std::to_string(s.observation_size);
  text += ", action=" + std::string(py::repr(to_tuple(s)[1]));
  text += ", max_episode_steps=" + std::to_string(s.max_episode_steps);
  return text + ", step_seconds=" + std::string(py::repr(py::float_(s.step_seconds))) + ')';
}

}  // namespace

void bind_spec(py::module_& m) {
  py::class_<Box> box(m, "Box", "A continuous action: `size` floats, each within its bounds.");
  box.def(py::init([](int size, float low, float high, std::vector<float> lows,
                      std::vector<float> highs) {
            return checked(Box{size, low, high, std::move(lows), std::move(highs)});
          }),
          py::arg("size"), py::arg("low") = Box{}.low, py::arg("high") = Box{}.high,
          py::arg("lows") = std::vector<float>{}, py::arg("highs") = std::vector<float>{})
      .def_readonly("size", &Box::size, "Floats in an action.")
      .def_property_readonly(
          "low", [](const Box& b) { return bounds(b, &Box::low_of); },
          "Lower bounds, float32[size].")
      .def_property_readonly(
          "high", [](const Box& b) { return bounds(b, &Box::high_of); },
          "Upper bounds, float32[size].")
      .def("__repr__", [](const Box& b) { return "Box(size=" + std::to_string(b.size) + ")"; })
      .def(py::pickle([](const Box& b) { return to_tuple(b); }, &to_box));
  def_equality<Box>(box);

  py::class_<Discrete> discrete(m, "Discrete", "A discrete action: one of 0 .. count - 1.");
  discrete.def(py::init([](int count) { return checked(Discrete{count}); }), py::arg("count"))
      .def_readonly("count", &Discrete::count, "Number of actions.")
      .def("__repr__",
           [](const Discrete& d) { return "Discrete(count=" + std::to_string(d.count) + ")"; })
      .def(py::pickle([](const Discrete& d) { return to_tuple(d); },
                      [](const py::tuple& t) { return checked(Discrete{t[0].cast<int>()}); }));
  def_equality<Discrete>(discrete);

  py::class_<ObservationGroup>(m, "ObservationGroup", "A named slice of the observation row.")
      .def(py::init([](std::string name, int first, int size) {
             return ObservationGroup{std::move(name), first, size};
           }),
           py::arg("name"), py::arg("first"), py::arg("size"))
      .def_readonly("name", &ObservationGroup::name)
      .def_readonly("first", &ObservationGroup::first, "Index of the first float.")
      .def_readonly("size", &ObservationGroup::size, "Number of floats.")
      .def("__repr__", [](const ObservationGroup& g) {
        return "ObservationGroup(name=" + std::string(py::repr(py::str(g.name))) +
               ", first=" + std::to_string(g.first) + ", size=" + std::to_string(g.size) + ')';
      });

  py::class_<Spec> spec(m, "Spec", R"(What an environment promises about its numbers.

Examples:
    >>> import canter
    >>> canter.make_pool("Pendulum-v1").spec.observation_size
    3
)");
  spec.def(py::init([](int observation_size, ActionSpec action, int max_episode_steps,
                       std::vector<float> lows, std::vector<float> highs, double step_seconds) {
             Spec s;
             s.observation_size = observation_size;
             s.action = std::move(action);
             s.max_episode_steps = max_episode_steps;
             s.observation_lows = std::move(lows);
             s.observation_highs = std::move(highs);
             s.step_seconds = step_seconds;
             check(s);
             return s;
           }),
           py::arg("observation_size"), py::arg("action"), py::kw_only(),
           py::arg("max_episode_steps") = 0, py::arg("observation_lows") = std::vector<float>{},
           py::arg("observation_highs") = std::vector<float>{}, py::arg("step_seconds") = 0.0)
      .def_readonly("observation_size", &Spec::observation_size, "Floats in an observation row.")
      .def_property_readonly(
          "action", [](const Spec& s) { return s.action; }, "Box or Discrete.")
      .def_property_readonly("action_size", &Spec::action_size,
                             "Floats per action row: Box.size, or 1 for Discrete.")
      .def_property_readonly("is_discrete", &Spec::is_discrete, "True for Discrete actions.")
      .def_readonly("frame_skip", &Spec::frame_skip, "Physics steps per environment step.")
      .def_readonly("max_episode_steps", &Spec::max_episode_steps, "Time limit [steps]; 0: none.")
      .def_readonly("groups", &Spec::groups, "Slices of the observation row; empty: one, 'policy'.")
      .def_readonly("metrics", &Spec::metrics, "Names of the columns of StepResult.metrics.")
      .def_readonly("observation_lows", &Spec::observation_lows, "Bounds; empty: unbounded.")
      .def_readonly("observation_highs", &Spec::observation_highs, "Bounds; empty: unbounded.")
      .def_readonly("step_seconds", &Spec::step_seconds,
                    "Simulated seconds per environment step [s]; 0: unknown.")
      .def("__repr__", to_repr)
      .def(py::pickle([](const Spec& s) { return to_tuple(s); }, &to_spec));
  def_equality<Spec>(spec);
}

}  // namespace canter::python
