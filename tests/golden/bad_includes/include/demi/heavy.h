#include <Eigen/Dense>
#include <string>
